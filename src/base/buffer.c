/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t buffer_growth(const struct buffer *buffer, size_t size)
{
        size_t needed = buffer->size + size + 1;

        return needed > buffer->room ? needed * 2 - buffer->room : 0;
}

int buffer_add(struct buffer *buffer, const char *data, size_t size, size_t most)
{
        size_t growth;

        if (size > most || buffer->size > most - size)
                return -EMSGSIZE;
        growth = buffer_growth(buffer, size);
        if (growth) {
                char *text = realloc(buffer->text, buffer->room + growth);

                if (!text)
                        return -ENOMEM;
                buffer->text = text;
                buffer->room += growth;
        }
        memcpy(buffer->text + buffer->size, data, size);
        buffer->size += size;
        buffer->text[buffer->size] = '\0';
        return 0;
}

int buffer_lines(struct buffer *buffer, int (*take)(void *context, char *line, size_t size), void *context)
{
        size_t from = 0;
        char *end;
        int r = 0;

        while (r == 0 && from < buffer->size &&
               (end = memchr(buffer->text + from, '\n', buffer->size - from)) != NULL) {
                size_t size = (size_t)(end - buffer->text) - from;

                *end = '\0';
                if (size)
                        r = take(context, buffer->text + from, size);
                from += size + 1;
        }
        if (from) {
                memmove(buffer->text, buffer->text + from, buffer->size - from + 1);
                buffer->size -= from;
        }
        return r;
}

void buffer_done(struct buffer *buffer)
{
        free(buffer->text);
        *buffer = (struct buffer){ 0 };
}
