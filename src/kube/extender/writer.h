/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON text that grows, for answers with an entry per node: a tree of 5,000 values would cost more than the decisions.
 * Appending never fails; a writer that ran out of memory gives NULL at its end.
 */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct writer {
        char *text; /* not terminated; NULL: nothing yet */
        size_t size, room;
        bool is_broken; /* no memory */
};

void writer_done(struct writer *writer);

bool writer_reserve(struct writer *writer, size_t more); /* false: no memory */

/* Appends without quoting. Inline, because it is most of the cost of a large answer. */
static inline void writer_put(struct writer *writer, const char *text, size_t size)
{
        if (size >= writer->room - writer->size && !writer_reserve(writer, size))
                return;
        memcpy(writer->text + writer->size, text, size);
        writer->size += size;
}

static inline void writer_text(struct writer *writer, const char *text)
{
        writer_put(writer, text, strlen(text));
}

void writer_number(struct writer *writer, uint64_t number);
void writer_string(struct writer *writer, const char *text);        /* UTF-8; quoted and escaped */
void writer_add(struct writer *writer, const struct writer *other); /* appends the whole of `other` */

/* The text with a NUL, the caller's, and its size without it; the writer is empty then. NULL: no memory. */
char *writer_take(struct writer *writer, size_t *ret_size);
