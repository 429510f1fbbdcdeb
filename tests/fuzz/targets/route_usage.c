/* SPDX-License-Identifier: Apache-2.0 */
/* An answer's usage, and that of a session: the first byte says what form it has, the second how long the pieces are.
 * However an answer is cut, it says the same; no figure leaves its range, and the id is a text that ends. */
#include "route/keys/frames.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
        if (!holds)
                abort();
}

enum { SESSION = USAGE_MANY + 1, FORMS };

static void read_in(struct usage *usage, const uint8_t *data, size_t size, size_t piece, unsigned int form)
{
        struct frames frames;

        frames_begin(&frames);
        usage_begin(usage, form < SESSION ? (enum usage_form)form : USAGE_MANY);
        for (size_t at = 0; at < size; at += piece) {
                size_t n = size - at < piece ? size - at : piece;
                char *copy = malloc(n); /* of exactly its size: nothing is read behind it */

                require(copy != NULL);
                memcpy(copy, data + at, n);
                if (form == SESSION)
                        frames_feed(&frames, copy, n);
                else
                        usage_feed(usage, copy, n);
                free(copy);
        }
        if (form == SESSION)
                *usage = frames.usage;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct usage whole, cut;
        unsigned int form;

        if (size < 3)
                return 0;
        form = data[0] < 0x80 ? data[0] % 2 : data[0] % FORMS;
        read_in(&whole, data + 2, size - 2, size - 2, form);
        read_in(&cut, data + 2, size - 2, 1 + data[1] % 64, form);
        require(usage_tokens(&whole) == usage_tokens(&cut) && whole.is_said == cut.is_said);
        require(whole.prompt <= USAGE_MAX && whole.answer <= USAGE_MAX && whole.total <= USAGE_MAX);
        require(whole.cached <= USAGE_MAX && whole.caching <= USAGE_MAX);
        require(memchr(whole.id, 0, sizeof(whole.id)) && strcmp(whole.id, cut.id) == 0);
        require(whole.is_said || usage_tokens(&whole) == 0);
        return 0;
}
