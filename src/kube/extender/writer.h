/*
 * JSON that is written as it is found out, for answers with a name per node: a tree of 5,000 values would cost more than
 * what they are about. A writer never fails where it is used; one that had no memory says so at its end.
 */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct writer {
        char *text; /* ends with a NUL that is not counted; NULL: nothing yet */
        size_t size, room;
        bool is_broken; /* no memory */
};

void writer_done(struct writer *writer);

bool writer_reserve(struct writer *writer, size_t more); /* false: no memory */

/* As it is. Here, because it is most of what a large answer costs. */
static inline void writer_put(struct writer *writer, const char *text, size_t size)
{
        if (size >= writer->room - writer->size && !writer_reserve(writer, size))
                return;
        memcpy(writer->text + writer->size, text, size);
        writer->size += size;
}

static inline void writer_say(struct writer *writer, const char *text)
{
        writer_put(writer, text, strlen(text));
}

void writer_number(struct writer *writer, uint64_t number);
void writer_string(struct writer *writer, const char *text);        /* UTF-8; quoted and escaped */
void writer_add(struct writer *writer, const struct writer *other); /* appends the whole of `other` */

/* The text, the caller's, and its size; the writer is empty. NULL: no memory. */
char *writer_take(struct writer *writer, size_t *ret_size);
