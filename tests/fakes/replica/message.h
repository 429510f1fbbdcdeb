/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of an HTTP/1.1 message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
        MESSAGE_BODY_MAX = 256 << 20,
};

/* The value of a header in [head, end), in lower case and up to 63 bytes; "" if it is not there. */
void message_header(const char *head, const char *end, const char *name, char ret[64]);

/* Joins the chunks of [at, end) in place; false: not complete. ret_end: where the raw body ends. */
bool message_unchunk(char *at, const char *end, size_t *ret_size, char **ret_end);
