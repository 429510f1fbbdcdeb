/* The part of a JSON string that stands for itself, found 16 bytes at a time. Little endian. */
#pragma once

#include <stddef.h>

/* Bytes up to the next quote, backslash or control character; size if there is none. */
size_t plain_run(const char *text, size_t size);
