/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of blocks by key with LRU eviction and pins: an engine's KV cache, or a router's copy of it.
 *
 * Blocks in use are pinned and not evicted. Blocks that a request will fill, and its private ones, are reserved: they
 * count as used. At any time
 * n_blocks + n_reserved <= capacity, and n_pinned <= n_blocks.
 *
 * Not thread-safe. Keys are chained hashes: equal keys mean equal prefixes up to there.
 */
#pragma once

#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_block {
        uint64_t key;
        uint32_t older, newer; /* in the LRU list while not pinned; free list through older */
        uint32_t pins;
};

struct cache {
        struct map map;
        struct cache_block *blocks; /* [0] is the list's head */
        uint32_t capacity;
        uint32_t n_blocks, n_pinned, n_reserved;
        uint32_t free; /* first free block, 0: none */
};

int cache_init(struct cache *cache, uint32_t capacity); /* -ENOMEM */
void cache_done(struct cache *cache);
void cache_clear(struct cache *cache); /* drops all that is not pinned */

/* How many of the keys, from the first on, are cached. */
uint32_t cache_match(const struct cache *cache, const uint64_t *keys, uint32_t n);

bool cache_pin(struct cache *cache, uint64_t key); /* false: not there */
void cache_unpin(struct cache *cache, uint64_t key);

/* Evicts as needed. False: the rest is pinned or reserved, and nothing was reserved. */
bool cache_reserve(struct cache *cache, uint32_t n);
void cache_unreserve(struct cache *cache, uint32_t n);

/* A reserved block becomes a pinned one under this key, or the one that is there already is pinned. */
void cache_fill(struct cache *cache, uint64_t key);

/* A router's copy: now the most recent; inserted if it was not there. No pins, no reserves. */
void cache_touch(struct cache *cache, uint64_t key);
