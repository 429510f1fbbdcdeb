/* SPDX-License-Identifier: Apache-2.0 */
/* A multipart body and its Content-Type (the first line): what is found lies within the body. Paths beside. */
#include "route/request/endpoint.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        const char *text = (const char *)data, *line = size ? memchr(text, '\n', size) : NULL, *body, *found;
        unsigned int methods;
        size_t n;

        if (!line)
                return 0;
        (void)endpoint_find(text, (size_t)(line - text), ENDPOINT_GET, &methods);
        body = line + 1;
        if (endpoint_form_field(text, (size_t)(line - text), body, size - (size_t)(body - text), "model", &found, &n) &&
            (found < body || found + n > text + size))
                abort();
        return 0;
}
