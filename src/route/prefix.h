/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a prompt as a chain of block hashes: two prompts that begin alike have chains that begin alike.
 *
 * Blocks are 256 bytes up to 2 KiB of text, then 1 KiB; h(i) = XXH3(block(i), seed h(i-1)). Only whole blocks count:
 * an engine caches whole blocks only, too. A cache is shared only within a model and cache salt. Both may come after
 * the text in a request, so they are mixed into each hash at the end. A part that is not text (a picture) is added as
 * a hash of its bytes or of its address.
 *
 * Threads: a struct prefix is one thread's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
        PREFIX_SMALL = 256,        /* bytes of a block ... */
        PREFIX_SMALL_UNTIL = 2048, /* ... up to here */
        PREFIX_LARGE = 1024,       /* and after it */
        PREFIX_BLOCKS = 4096,      /* of a prompt: 4 MiB of text; the rest of a longer one is ignored */
};

struct prefix {
        uint64_t chain[PREFIX_BLOCKS];
        uint32_t n_blocks;
        uint32_t n_filled; /* bytes of the block begun */
        uint64_t size;     /* bytes of text in all, also beyond the last block */
        uint64_t seed;
        unsigned char block[PREFIX_LARGE];
};

void prefix_begin(struct prefix *prefix);

void prefix_text(struct prefix *prefix, const void *text, size_t size);

/* Once, at the end: the chain is the same only for the same model and salt. */
void prefix_bind(struct prefix *prefix, const void *model, size_t model_size, const void *salt, size_t salt_size);

/* Bytes of text in the first n blocks. */
uint64_t prefix_bytes(uint32_t n_blocks);
