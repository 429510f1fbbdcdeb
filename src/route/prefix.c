/* SPDX-License-Identifier: Apache-2.0 */
#include "route/prefix.h"

#include "route/hash.h"

#include <string.h>

enum {
        N_SMALL = PREFIX_SMALL_UNTIL / PREFIX_SMALL,
};

void prefix_begin(struct prefix *prefix)
{
        prefix->n_blocks = prefix->n_filled = 0;
        prefix->size = prefix->seed = 0;
}

void prefix_bind(struct prefix *prefix, const void *model, size_t model_size, const void *salt, size_t salt_size)
{
        uint64_t whose = XXH3_64bits_withSeed(salt, salt_size, XXH3_64bits(model, model_size));

        for (uint32_t i = 0; i < prefix->n_blocks; i++)
                prefix->chain[i] ^= whose;
}

static uint32_t block_size(const struct prefix *prefix)
{
        return prefix->n_blocks < N_SMALL ? PREFIX_SMALL : PREFIX_LARGE;
}

static void put_block(struct prefix *prefix, const void *block, size_t size)
{
        prefix->seed = XXH3_64bits_withSeed(block, size, prefix->seed);
        prefix->chain[prefix->n_blocks++] = prefix->seed;
}

/* Whole blocks are hashed where they lie. */
void prefix_text(struct prefix *prefix, const void *text, size_t size)
{
        const unsigned char *at = text;

        prefix->size += size;
        if (prefix->n_filled + size < block_size(prefix)) { /* most runs are short */
                memcpy(prefix->block + prefix->n_filled, text, size);
                prefix->n_filled += (uint32_t)size;
                return;
        }
        while (size && prefix->n_blocks < PREFIX_BLOCKS) {
                uint32_t whole = block_size(prefix), n = whole - prefix->n_filled;

                if (!prefix->n_filled && size >= whole) {
                        put_block(prefix, at, whole);
                        n = whole;
                } else {
                        n = size < n ? (uint32_t)size : n;
                        memcpy(prefix->block + prefix->n_filled, at, n);
                        prefix->n_filled += n;
                        if (prefix->n_filled == whole) {
                                put_block(prefix, prefix->block, whole);
                                prefix->n_filled = 0;
                        }
                }
                at += n;
                size -= n;
        }
}

uint64_t prefix_bytes(uint32_t n_blocks)
{
        if (n_blocks <= N_SMALL)
                return (uint64_t)n_blocks * PREFIX_SMALL;
        return PREFIX_SMALL_UNTIL + (uint64_t)(n_blocks - N_SMALL) * PREFIX_LARGE;
}
