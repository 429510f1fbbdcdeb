/* Whole lines of a stream that comes in pieces which break anywhere. */
#pragma once

#include <stddef.h>

enum {
        LINES_MAX = 1 << 20, /* a longer line is an error */
};

struct lines {
        char *text;
        size_t size, room;
};

/* Hands every line that is now whole to `take` (without its end, NUL-terminated), in order. A negative errno of
 * take's ends it and is returned; else 0; -ENOMEM; -EMSGSIZE: a line without end. */
int lines_put(struct lines *lines, const char *data, size_t size, int (*take)(void *context, char *line),
              void *context);
void lines_done(struct lines *lines);
