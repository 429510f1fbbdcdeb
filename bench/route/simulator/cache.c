/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cache.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>

static void unlink_block(struct cache *cache, uint32_t i)
{
        struct cache_block *b = &cache->blocks[i];

        cache->blocks[b->older].newer = b->newer;
        cache->blocks[b->newer].older = b->older;
}

/* The head's `older` is the most recent, its `newer` the least recent. */
static void link_newest(struct cache *cache, uint32_t i)
{
        struct cache_block *head = &cache->blocks[0], *b = &cache->blocks[i];

        b->older = head->older;
        b->newer = 0;
        cache->blocks[head->older].newer = i;
        head->older = i;
}

static uint32_t cache_find(const struct cache *cache, uint64_t key)
{
        const struct cache_block *b = map_get(&cache->map, key);

        return b ? (uint32_t)(b - cache->blocks) : 0;
}

int cache_init(struct cache *cache, uint32_t capacity)
{
        *cache = (struct cache){ .capacity = capacity };
        cache->blocks = calloc((size_t)capacity + 1, sizeof(*cache->blocks));
        if (!cache->blocks || map_reserve(&cache->map, capacity) < 0) {
                cache_done(cache);
                return -ENOMEM;
        }
        for (uint32_t i = capacity; i > 0; i--) {
                cache->blocks[i].older = cache->free;
                cache->free = i;
        }
        return 0;
}

void cache_done(struct cache *cache)
{
        map_done(&cache->map);
        free(cache->blocks);
        *cache = (struct cache){ 0 };
}

static bool evict(struct cache *cache)
{
        uint32_t i = cache->blocks[0].newer;

        if (!i)
                return false;
        unlink_block(cache, i);
        (void)map_take(&cache->map, cache->blocks[i].key);
        cache->blocks[i].older = cache->free;
        cache->free = i;
        cache->n_blocks--;
        return true;
}

void cache_clear(struct cache *cache)
{
        while (evict(cache))
                ;
}

uint32_t cache_match(const struct cache *cache, const uint64_t *keys, uint32_t n)
{
        uint32_t i = 0;

        while (i < n && cache_find(cache, keys[i]))
                i++;
        return i;
}

bool cache_pin(struct cache *cache, uint64_t key)
{
        uint32_t i = cache_find(cache, key);

        if (!i)
                return false;
        if (cache->blocks[i].pins++ == 0) {
                unlink_block(cache, i);
                cache->n_pinned++;
        }
        return true;
}

void cache_unpin(struct cache *cache, uint64_t key)
{
        uint32_t i = cache_find(cache, key);

        assert(i && cache->blocks[i].pins);
        if (--cache->blocks[i].pins == 0) {
                link_newest(cache, i);
                cache->n_pinned--;
        }
}

bool cache_reserve(struct cache *cache, uint32_t n)
{
        if (cache->n_pinned + cache->n_reserved + n > cache->capacity)
                return false;
        cache->n_reserved += n;
        while (cache->n_blocks + cache->n_reserved > cache->capacity)
                (void)evict(cache);
        return true;
}

void cache_unreserve(struct cache *cache, uint32_t n)
{
        assert(cache->n_reserved >= n);
        cache->n_reserved -= n;
}

/* Takes a free block; there is one, because used and reserved together never exceed the capacity. */
static uint32_t insert(struct cache *cache, uint64_t key)
{
        uint32_t i = cache->free;

        assert(i);
        cache->free = cache->blocks[i].older;
        cache->blocks[i] = (struct cache_block){ .key = key };
        cache->n_blocks++;
        (void)map_put(&cache->map, key, &cache->blocks[i]); /* reserved in cache_init */
        return i;
}

void cache_fill(struct cache *cache, uint64_t key)
{
        cache_unreserve(cache, 1);
        if (cache_pin(cache, key))
                return;
        cache->blocks[insert(cache, key)].pins = 1;
        cache->n_pinned++;
}

void cache_touch(struct cache *cache, uint64_t key)
{
        uint32_t i = cache_find(cache, key);

        if (i)
                unlink_block(cache, i);
        else if (cache->n_blocks < cache->capacity || evict(cache))
                i = insert(cache, key);
        if (i)
                link_newest(cache, i);
}
