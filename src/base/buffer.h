/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that arrives in pieces which break anywhere, and the whole lines of it.
 *
 *      struct buffer buffer = { 0 };
 *      r = buffer_add(&buffer, data, size, ANSWER_MAX);
 *      ...
 *      buffer_done(&buffer);
 */
#pragma once

#include <stddef.h>

struct buffer {
        char *text; /* from malloc; ends with a NUL that is not counted; NULL: nothing was added */
        size_t size, room;
};

/* The buffer holds at most `most` bytes. 0; -EMSGSIZE; -ENOMEM: nothing was added. */
int buffer_add(struct buffer *buffer, const char *data, size_t size, size_t most);

/* By how many bytes buffer_add of `size` bytes would enlarge `room`. */
size_t buffer_growth(const struct buffer *buffer, size_t size);

/* Hands the whole lines to `take`, in order, without line end and without empty ones, and keeps the rest. What `take`
 * returns other than 0 ends this and is returned. */
int buffer_lines(struct buffer *buffer, int (*take)(void *context, char *line, size_t size), void *context);

void buffer_done(struct buffer *buffer); /* also for _cleanup_ */
