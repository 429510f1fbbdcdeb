/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of an answer's body: what is decided once does not change with more bytes. */
#include "route/answer.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        for (unsigned int how = 0; how < 8; how++) {
                const struct answer_body body = { .is_chunked = how & 1, .is_events = how & 2, .must_say = how & 4 };
                enum answer before = ANSWER_NONE;

                for (size_t n = 0; n <= size && n <= 512; n++) {
                        enum answer now = answer_begun(data, n, body);

                        if (now != ANSWER_NONE && now != ANSWER_GOOD && now != ANSWER_ERROR &&
                            !(now == ANSWER_EMPTY && body.must_say))
                                abort();
                        if (before != ANSWER_NONE && now != before)
                                abort();
                        before = now;
                }
        }
        return 0;
}
