/* SPDX-License-Identifier: Apache-2.0 */
/* A request's body: however it is cut, the same is found; and what is found is within its bounds. */
#include "route/request/scan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void require(int holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static struct scan whole, cut;
        static struct prefix one, two;
        size_t step = size ? 1 + data[0] % 13 : 1;

        scan_begin(&whole, &one);
        (void)scan_feed(&whole, data, size);
        (void)scan_end(&whole);
        scan_begin(&cut, &two);
        for (size_t at = 0; at < size; at += step)
                (void)scan_feed(&cut, data + at, step < size - at ? step : size - at);
        (void)scan_end(&cut);
        require(whole.failed == cut.failed && whole.is_stream == cut.is_stream && whole.n == cut.n);
        require(whole.model.size < SCAN_WORD && whole.depth <= SCAN_DEPTH);
        if (whole.failed)
                return 0;
        require(whole.at == size && whole.depth == 0);
        require(!strcmp(whole.model.text, cut.model.text) && strlen(whole.model.text) <= whole.model.size);
        require(one.size == two.size && one.n_blocks == two.n_blocks);
        require(one.size <= 2 * size + 16 + (uint64_t)whole.n_media * MEDIA_TOKENS_MOST * 4);
        require(!memcmp(one.chain, two.chain, one.n_blocks * sizeof(one.chain[0])));
        return 0;
}
