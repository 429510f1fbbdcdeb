/* SPDX-License-Identifier: Apache-2.0 */
/* Text that people write and read: sizes, numbers. Parsers take the whole string or refuse it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef uint64_t bytes;

#define KIB ((bytes)1 << 10)
#define MIB ((bytes)1 << 20)
#define GIB ((bytes)1 << 30)

/* Longest text of bytes_format, with its NUL. */
enum {
        BYTES_TEXT = 24,
};

/*
 * "8G", "512M", "1.5GiB", "4096", "25%" (of whole). Units are powers of 1024, in any case: K M G T P E
 * with an optional "i" and "B"; bytes without a unit or with "B". One blank may stand before the
 * unit, as bytes_format writes it, and none elsewhere. Rounded down to a byte, but a fraction of a
 * byte is no size. Returns 0; -EINVAL (not a size); -ERANGE (zero, over INT64_MAX, or a percentage
 * over 100).
 */
int bytes_parse(const char *text, bytes whole, bytes *ret);

/* "7.5 GiB", "512 MiB", "0 B": at most one decimal, rounded down. Returns buffer. */
const char *bytes_format(bytes size, char buffer[static BYTES_TEXT]);

/* A decimal or 0x-hexadecimal number, nothing else around it. 0; -EINVAL; -ERANGE. */
int number_parse(const char *text, uint64_t *ret);
