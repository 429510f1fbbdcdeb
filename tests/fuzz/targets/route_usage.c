/* SPDX-License-Identifier: Apache-2.0 */
/* An answer's usage: the first byte says whether these are events, the second how long the pieces are. However an
 * answer is cut, it says the same; no figure leaves its range, and the id is a text that ends. */
#include "route/keys/usage.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
        if (!holds)
                abort();
}

static void read_in(struct usage *usage, const uint8_t *data, size_t size, size_t piece, bool is_events)
{
        usage_begin(usage, is_events);
        for (size_t at = 0; at < size; at += piece) {
                size_t n = size - at < piece ? size - at : piece;
                char *copy = malloc(n); /* of exactly its size: nothing is read behind it */

                require(copy != NULL);
                memcpy(copy, data + at, n);
                usage_feed(usage, copy, n);
                free(copy);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct usage whole, cut;
        bool is_events;

        if (size < 3)
                return 0;
        is_events = data[0] % 2;
        read_in(&whole, data + 2, size - 2, size - 2, is_events);
        read_in(&cut, data + 2, size - 2, 1 + data[1] % 64, is_events);
        require(usage_tokens(&whole) == usage_tokens(&cut) && whole.is_said == cut.is_said);
        require(whole.prompt <= USAGE_MAX && whole.answer <= USAGE_MAX && whole.total <= USAGE_MAX);
        require(whole.cached <= USAGE_MAX && whole.caching <= USAGE_MAX);
        require(memchr(whole.id, 0, sizeof(whole.id)) && strcmp(whole.id, cut.id) == 0);
        require(whole.is_said || usage_tokens(&whole) == 0);
        return 0;
}
