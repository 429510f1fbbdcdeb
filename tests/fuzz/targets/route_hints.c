/* SPDX-License-Identifier: Apache-2.0 */
/* A client's headers of deadline and priority: the first byte says how long the deadline is, in seconds. A deadline is
 * only ever shortened, and a priority never leaves its type. */
#include "route/request/hints.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        nsec most = size ? (nsec)data[0] * NSEC_PER_SEC : 0, span;
        int32_t priority = 0;
        char *text;

        if (!size)
                return 0;
        text = malloc(size); /* of exactly its size: nothing is read behind it */
        require(text != NULL);
        memcpy(text, data + 1, size - 1);
        if (hints_deadline(text, size - 1, most, &span))
                require(span > 0 && span <= most);
        if (hints_deadline(text, size - 1, INT64_MAX, &span))
                require(span > 0);
        if (hints_priority(text, size - 1, &priority))
                require(priority >= -INT32_MAX);
        free(text);
        return 0;
}
