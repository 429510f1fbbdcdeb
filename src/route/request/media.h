/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a picture or a clip in a prompt costs: the tokens that a model's vision tower makes of it.
 *
 * The size of an inline PNG or JPEG is read from its header, out of base64 in pieces of any size. What is at an address
 * or in another format has no known size and counts as MEDIA_SIDE x MEDIA_SIDE. The formulas are in families.def.
 *
 * Threads: a struct media is one thread's. No memory, no failure: what is not understood has no size.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum media_kind { MEDIA_IMAGE, MEDIA_VIDEO, MEDIA_OTHER };

enum {
        MEDIA_SIDE = 1024,       /* pixels, where the size is not known */
        MEDIA_SIDE_MOST = 65535, /* what a header says beyond it counts as this */
        MEDIA_PIECE = 256,
        MEDIA_HEAD = 24,           /* bytes of a PNG up to the end of its size */
        MEDIA_READ = 256 * 1024,   /* bytes that are looked at; a JPEG's size comes after its EXIF and ICC parts */
        MEDIA_TOKENS_MOST = 32768, /* of one part; no family exceeds it */
};

struct media {
        uint32_t width, height; /* pixels; both 0: not known */
        unsigned char state, is_address, code, n_bits;
        uint32_t n_text, n_bytes, bits, length;
        unsigned char head[MEDIA_HEAD], piece[MEDIA_PIECE];
        uint32_t n_piece;
        uint64_t hash; /* so far; the piece is not in it yet */
};

void media_begin(struct media *media);
void media_feed(struct media *media, const void *text, size_t size); /* of a data: URL, or bare base64 */
uint64_t media_hash(struct media *media);                            /* of all that was fed; once, at the end */

struct media_family;
struct prefix;

/* By the name of a model, as a client says it. Never NULL: a name that no row has is of the last family. */
const struct media_family *media_family(const char *model);

/* Tokens of one part; 0 x 0: its size is not known. 0 to MEDIA_TOKENS_MOST. */
uint32_t media_tokens(const struct media_family *family, enum media_kind kind, uint32_t width, uint32_t height);

/* A part as so many tokens of text that only parts with this hash have. Nothing more once the prefix is full. */
void media_put(struct prefix *prefix, uint64_t hash, uint32_t tokens);
