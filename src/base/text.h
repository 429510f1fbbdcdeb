/* SPDX-License-Identifier: Apache-2.0 */
/* Text that people write and read: sizes, numbers. Parsers take the whole string or refuse it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t bytes;

#define KIB ((bytes)1 << 10)
#define MIB ((bytes)1 << 20)
#define GIB ((bytes)1 << 30)

/* Longest text of bytes_format and bytes_wrong, with its NUL. */
enum {
        BYTES_TEXT = 24,
        BYTES_WRONG = 64,
};

/*
 * "8G", "512M", "1.5GiB", "4096", "25%" (of whole). Units are powers of 1024, in any case: K M G T P E
 * with an optional "i" and "B"; bytes without a unit or with "B". One blank may stand before the
 * unit, as bytes_format writes it, and none elsewhere. Rounded down to a byte, but a fraction of a
 * byte is no size, and neither is a number below 1 MiB without a unit: the unit was forgotten
 * ("8"; "8B" is eight bytes). Returns 0; -EINVAL (not a size); -ERANGE (zero, over INT64_MAX, or a
 * percentage over 100).
 */
int bytes_parse(const char *text, bytes whole, bytes *ret);

/* What to say of a text that bytes_parse refused: `otherwise`, or that a unit was forgotten ("a unit is
 * missing: did you mean 8G?"), which is written to buffer. */
const char *bytes_wrong(const char *text, const char *otherwise, char buffer[static BYTES_WRONG]);

/* Whether a word is `name` with a slip or two: a letter too many, too few, another one, or two exchanged. */
bool text_is_like(const char *word, const char *name);

/* "7.5 GiB", "512 MiB", "0 B": at most one decimal, rounded down. Returns buffer. */
const char *bytes_format(bytes size, char buffer[static BYTES_TEXT]);

/* Whether `text` names a device: its UUID or the beginning of it, as in CUDA_VISIBLE_DEVICES; its PCI address as
 * "18:00.0", "0000:18:00.0", or as nvidia-smi writes it and bus_id is, "00000000:18:00.0". */
bool device_name_fits(const char *text, const char *uuid, const char *bus_id);

/* A decimal or 0x-hexadecimal number, nothing else around it. 0; -EINVAL; -ERANGE. */
int number_parse(const char *text, uint64_t *ret);
