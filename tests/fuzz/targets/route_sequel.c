/* SPDX-License-Identifier: Apache-2.0 */
/* A stream that may go on elsewhere: a line with the request, a byte that says how long the pieces are, the answer.
 * However the answer is cut, the same is known of it and the client is given each byte once and in order; and the
 * request for the rest is one that may go on again. */
#include "route/request/sequel.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
        if (!holds)
                abort();
}

/* As nginx's side does it. */
static void read_in(struct sequel *sequel, const uint8_t *data, size_t size, size_t piece)
{
        const char *taken;
        size_t given = 0, n, at = 0;

        while (at < size) {
                n = size - at < piece ? size - at : piece;
                if (!sequel_feed(sequel, data + at, n)) {
                        require(sequel->is_lost);
                        break;
                }
                at += n;
                sequel_take(sequel, &taken, &n);
                require(given + n <= at && memcmp(taken, data + given, n) == 0);
                given += n;
                if (at % 3)
                        sequel_gone(sequel);
        }
        sequel_take(sequel, &taken, &n);
        require(given + n <= at && memcmp(taken, data + given, n) == 0);
        require(!sequel->is_lost || given + n == at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
        size_t n = line ? (size_t)(line - data) : 0, left, rest_size;
        struct sequel whole, cut;
        uint32_t most;
        char *rest;

        if (!line || n + 2 > size || !sequel_may(data, n, &most))
                return 0;
        left = size - n - 2;
        require(sequel_init(&whole, left) == 0 && sequel_init(&cut, left) == 0);
        whole.max_tokens = cut.max_tokens = most;
        read_in(&whole, line + 2, left, left + 1);
        read_in(&cut, line + 2, left, 1 + line[1] % 64u);
        require(whole.is_lost == cut.is_lost && whole.is_over == cut.is_over && whole.n_tokens == cut.n_tokens);
        require(whole.n_text == cut.n_text && (!cut.n_text || memcmp(whole.text, cut.text, cut.n_text) == 0));
        rest = sequel_is_open(&cut) ? sequel_body(&cut, data, n, &rest_size) : NULL;
        require(!rest || (sequel_may(rest, rest_size, &most) && most == cut.max_tokens - cut.n_tokens));
        free(rest);
        sequel_done(&whole);
        sequel_done(&cut);
        return 0;
}
