#include "cli/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int append(struct lines *lines, const char *data, size_t size)
{
        size_t room = (lines->size + size) * 2 + 1;
        char *text;

        if (lines->size + size > LINES_MAX)
                return -EMSGSIZE;
        if (lines->size + size + 1 > lines->room) {
                text = realloc(lines->text, room);
                if (!text)
                        return -ENOMEM;
                lines->text = text;
                lines->room = room;
        }
        memcpy(lines->text + lines->size, data, size);
        lines->size += size;
        return 0;
}

int lines_put(struct lines *lines, const char *data, size_t size, int (*take)(void *context, char *line), void *context)
{
        while (size) {
                const char *end = memchr(data, '\n', size);
                size_t n = end ? (size_t)(end - data) : size;
                int r = append(lines, data, n);

                if (r < 0)
                        return r;
                if (!end)
                        return 0;
                lines->text[lines->size] = '\0';
                lines->size = 0;
                r = take(context, lines->text);
                if (r < 0)
                        return r;
                data += n + 1;
                size -= n + 1;
        }
        return 0;
}

void lines_done(struct lines *lines)
{
        free(lines->text);
        *lines = (struct lines){ 0 };
}
