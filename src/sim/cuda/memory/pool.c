/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: finding room, backing it with memory, releasing it. See pool.h. */
#include "sim/cuda/memory/pool.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"
#include "sim/cuda/memory/pool_share.h"

#include <stdlib.h>

enum {
        SMALL_ALIGN = 512,
        LARGE_ALIGN = 2 << 20,
};

static CUmemoryPool pools; /* all of them, under the lock */

/* ---- making -------------------------------------------------------------------------------- */

CUresult pool_new(struct device *device, const CUmemPoolProps *properties, CUmemoryPool *ret)
{
        _cleanup_(freep) CUmemoryPool pool = calloc(1, sizeof(*pool));
        uint32_t status;

        if (!pool)
                return CUDA_ERROR_OUT_OF_MEMORY;
        pool->device = device;
        pool->fd = -1;
        if (properties)
                pool->properties = *properties;
        pool->size = 2 * round_up(device->start.total, POOL_SLOT);
        pool->n_slots = pool->size / POOL_SLOT;
        pool->slot = calloc(pool->n_slots, sizeof(struct mapping *));
        if (!pool->slot)
                return CUDA_ERROR_OUT_OF_MEMORY;
        pool->base = addresses_reserve_at(0x302000000, pool->size);
        status = pool->base ? nv_uvm_create(&library.nv, pool->base, pool->size) : RM_STATUS_NO_MEMORY;
        if (status != RM_STATUS_OK) {
                addresses_release(pool->base, pool->size);
                free(pool->slot);
                return result_of(status);
        }
        device->start.keeps_vaspace = true;
        pool->next = pools;
        pools = pool;
        *ret = TAKE(pool);
        return CUDA_SUCCESS;
}

CUresult pool_of_device(struct device *device, CUmemoryPool *ret)
{
        CUresult r = device->default_pool ? CUDA_SUCCESS : pool_new(device, NULL, &device->default_pool);

        *ret = device->default_pool;
        return r;
}

CUresult pool_of_graphs(struct device *device, CUmemoryPool *ret)
{
        CUresult r = CUDA_SUCCESS;

        if (!device->graph_pool) {
                r = pool_new(device, NULL, &device->graph_pool);
                if (r != CUDA_SUCCESS)
                        return r;
                device->graph_pool->is_graph = true;
        }
        *ret = device->graph_pool;
        return CUDA_SUCCESS;
}

/* The pool whose stretch holds an address; NULL. */
static CUmemoryPool pool_at(uint64_t address)
{
        for (CUmemoryPool pool = pools; pool; pool = pool->next)
                if (address >= pool->base && address - pool->base < pool->size)
                        return pool;
        return NULL;
}

/* ---- slots --------------------------------------------------------------------------------- */

static void slot_unback(CUmemoryPool pool, size_t i)
{
        pool->slot[i] = mapping_free(pool->slot[i]);
        pool->n_backed--;
}

CUresult pool_back(CUmemoryPool pool, size_t first, size_t last)
{
        size_t n = last - first + 1;
        _cleanup_(freep) struct memory **taken = calloc(n, sizeof(struct memory *));
        CUresult r = taken ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

        if (r == CUDA_SUCCESS && pool->is_imported)
                r = share_import(pool, first, n, taken);
        for (size_t i = 0; i < n && r == CUDA_SUCCESS && !pool->is_imported; i++)
                if (!pool->slot[first + i])
                        r = memory_video(pool->device, POOL_SLOT, ATTR_CHUNKED, &taken[i]);
        for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
                if (!taken[i])
                        continue;
                r = mapping_new(taken[i], pool->base + (first + i) * POOL_SLOT, POOL_SLOT, 0, false,
                                &pool->slot[first + i]);
                if (r == CUDA_SUCCESS)
                        pool->n_backed++;
        }
        if (r == CUDA_SUCCESS && pool->fd >= 0 && !pool->is_imported)
                r = share_export(pool, first, n, taken);
        for (size_t i = n; taken && i-- > 0;) { /* recorded: after a failure, slots are freed in reverse order */
                if (r != CUDA_SUCCESS && taken[i] && pool->slot[first + i])
                        slot_unback(pool, first + i);
                (void)memory_unref(taken[i]);
        }
        return r;
}

static void slots_of(const struct CUmemPoolHandle_st *pool, uint64_t base, uint64_t size, size_t *first, size_t *last)
{
        *first = (base - pool->base) / POOL_SLOT;
        *last = (base + size - 1 - pool->base) / POOL_SLOT;
}

/* ---- blocks -------------------------------------------------------------------------------- */

struct block *pool_block(const struct CUmemPoolHandle_st *pool, uint64_t base)
{
        for (struct block *b = pool->blocks; b; b = b->next)
                if (b->base == base)
                        return b;
        return NULL;
}

CUresult pool_block_put(CUmemoryPool pool, uint64_t base, uint64_t size, enum block_state state, struct block **ret)
{
        struct block *block = calloc(1, sizeof(*block)), **at = &pool->blocks;

        if (!block)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *block = (struct block){ .base = base, .size = size, .state = state };
        while (*at && (*at)->base < base)
                at = &(*at)->next;
        block->next = *at;
        *at = block;
        *ret = block;
        return CUDA_SUCCESS;
}

static void block_take(CUmemoryPool pool, struct block *block)
{
        LIST_REMOVE(&pool->blocks, block);
        free(block);
}

/* May the block be reused, by work in `stream`? NULL: by any work. */
static bool is_gone(const struct block *block, const struct CUstream_st *stream)
{
        if (block->state != BLOCK_FREED)
                return false;
        return (stream && block->stream == stream) || mark_is_reached(block->freed);
}

static bool is_backed(const struct CUmemPoolHandle_st *pool, uint64_t base, uint64_t size)
{
        size_t first, last;

        slots_of(pool, base, size, &first, &last);
        for (size_t i = first; i <= last; i++)
                if (!pool->slot[i])
                        return false;
        return true;
}

/* The lowest gap of `size`; backed: only where there is memory. 0: none. */
static uint64_t pool_find_gap(const struct CUmemPoolHandle_st *pool, const struct CUstream_st *stream, uint64_t size,
                              bool backed)
{
        uint64_t align = size >= LARGE_ALIGN ? LARGE_ALIGN : SMALL_ALIGN, at = pool->base;

        for (const struct block *b = pool->blocks;; b = b->next) {
                uint64_t end = b ? b->base : pool->base + pool->size;

                if (b && is_gone(b, stream))
                        continue;
                at = round_up(at, align);
                for (; at + size <= end && backed && !is_backed(pool, at, size); at = round_up(at + 1, POOL_SLOT))
                        ;
                if (at + size <= end)
                        return at;
                if (!b)
                        return 0;
                at = b->base + b->size;
        }
}

/* Drops the freed blocks that overlap [base, base + size). */
static void forget_freed(CUmemoryPool pool, uint64_t base, uint64_t size)
{
        for (struct block *b = pool->blocks, *next; b; b = next) {
                next = b->next;
                if (b->state == BLOCK_FREED && b->base < base + size && base < b->base + b->size)
                        block_take(pool, b);
        }
}

/* ---- taking and giving --------------------------------------------------------------------- */

/* Gives a block to the program: its memory, and its record. */
static CUresult block_live(CUmemoryPool pool, CUcontext context, struct block *block)
{
        struct allocation *allocation;
        size_t first, last;
        CUresult r = CUDA_SUCCESS;

        if (!pool->device->start.has_pool_memory)
                r = memory_of_pools(pool->device, context->start.low + LOW_POOLS);
        slots_of(pool, block->base, block->size, &first, &last);
        if (r == CUDA_SUCCESS)
                r = pool_back(pool, first, last);
        if (r == CUDA_SUCCESS)
                r = allocation_new(context, ALLOCATION_POOL, block->base, block->size, &allocation);
        if (r != CUDA_SUCCESS)
                return r;
        allocation->pool = pool;
        block->state = BLOCK_LIVE;
        pool->used += block->size;
        return CUDA_SUCCESS;
}

static CUresult take_once(CUmemoryPool pool, CUstream stream, uint64_t size, CUdeviceptr *ret)
{
        uint64_t at = pool_find_gap(pool, stream, size, true);
        struct block *block;
        CUresult r;

        if (!at)
                at = pool_find_gap(pool, stream, size, false);
        if (!at)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = pool_block_put(pool, at, size, BLOCK_RESERVED, &block);
        if (r != CUDA_SUCCESS)
                return r;
        r = block_live(pool, stream->context, block);
        if (r != CUDA_SUCCESS) {
                block_take(pool, block);
                pool_trim(pool, 0);
                return r;
        }
        forget_freed(pool, at, size);
        *ret = at;
        return CUDA_SUCCESS;
}

/* Waits for what was freed and may still be in use. */
static CUresult wait_for_freed(CUmemoryPool pool)
{
        struct block *b = pool->blocks;

        while (b) {
                CUresult r;

                if (b->state != BLOCK_FREED || mark_is_reached(b->freed)) {
                        b = b->next;
                        continue;
                }
                r = mark_wait(b->freed);
                if (r != CUDA_SUCCESS)
                        return r;
                b = pool->blocks; /* the lock was dropped */
        }
        return CUDA_SUCCESS;
}

/* Before it fails for lack of memory, it waits for blocks that are being freed. */
CUresult pool_take(CUmemoryPool pool, CUstream stream, uint64_t bytes, CUdeviceptr *ret)
{
        uint64_t size = round_up(bytes, SMALL_ALIGN);
        size_t n_backed, n_blocks = 0;
        CUresult r;

        if (pool->properties.maxSize && pool->used + size > pool->properties.maxSize)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = take_once(pool, stream, size, ret);
        if (r != CUDA_ERROR_OUT_OF_MEMORY)
                return r;

        n_backed = pool->n_backed;
        for (const struct block *b = pool->blocks; b; b = b->next)
                n_blocks += b->state == BLOCK_FREED;
        r = wait_for_freed(pool);
        if (r != CUDA_SUCCESS)
                return r;
        pool_trim(pool, 0);
        return n_blocks || pool->n_backed < n_backed ? take_once(pool, stream, size, ret) : CUDA_ERROR_OUT_OF_MEMORY;
}

void pool_give(struct allocation *allocation, struct mark freed)
{
        CUmemoryPool pool = allocation->pool;
        struct block *block = pool_block(pool, allocation->span.base);

        if (block && block->n_imported > 1) {
                block->n_imported--;
                return;
        }
        if (block) {
                pool->used -= block->size;
                block->freed = freed;
                block->state = block->n_graphs ? BLOCK_RESERVED : BLOCK_FREED;
        }
        (void)allocation_free(allocation);
        if (pool->is_ended)
                pool_trim(pool, 0);
}

void pool_give_in(struct allocation *allocation, CUstream stream)
{
        struct block *block = pool_block(allocation->pool, allocation->span.base);

        if (block)
                block->stream = stream;
        pool_give(allocation, stream->last);
}

/* Frees idle slots, the highest first, while the pool holds more than `keep` bytes. */
void pool_trim(CUmemoryPool pool, uint64_t keep)
{
        for (struct block *b = pool->blocks, *next; b; b = next) {
                next = b->next;
                if (is_gone(b, NULL))
                        block_take(pool, b);
        }
        for (size_t i = pool->n_slots; i-- > 0 && pool->n_backed && pool->n_backed * (uint64_t)POOL_SLOT > keep;) {
                uint64_t base = pool->base + i * POOL_SLOT;
                bool idle = true;

                if (!pool->slot[i])
                        continue;
                for (const struct block *b = pool->blocks; b && idle; b = b->next)
                        idle = (b->state == BLOCK_RESERVED && mark_is_reached(b->freed)) ||
                               b->base >= base + POOL_SLOT || b->base + b->size <= base;
                if (idle)
                        slot_unback(pool, i);
        }
}

void pools_release(struct device *device)
{
        for (CUmemoryPool pool = pools; pool; pool = pool->next)
                if (pool->device == device && !pool->is_graph)
                        pool_trim(pool, 0);
}

/* ---- addresses of graphs ------------------------------------------------------------------- */

CUresult pool_reserve(CUmemoryPool pool, uint64_t bytes, uint64_t *ret)
{
        uint64_t size = round_up(bytes, SMALL_ALIGN), at = pool_find_gap(pool, NULL, size, false);
        struct block *block;
        CUresult r;

        if (!at)
                return CUDA_ERROR_OUT_OF_MEMORY;
        forget_freed(pool, at, size);
        r = pool_block_put(pool, at, size, BLOCK_RESERVED, &block);
        if (r != CUDA_SUCCESS)
                return r;
        block->n_graphs = 1;
        *ret = at;
        return CUDA_SUCCESS;
}

void pool_reserved_ref(uint64_t base)
{
        CUmemoryPool pool = pool_at(base);
        struct block *block = pool ? pool_block(pool, base) : NULL;

        if (block)
                block->n_graphs++;
}

void pool_reserved_unref(uint64_t base)
{
        CUmemoryPool pool = pool_at(base);
        struct block *block = pool ? pool_block(pool, base) : NULL;

        if (block && --block->n_graphs == 0 && block->state == BLOCK_RESERVED) {
                block->state = BLOCK_FREED;
                block->freed = (struct mark){ 0 };
        }
}

CUresult pool_commit(uint64_t base, CUstream stream)
{
        CUmemoryPool pool = pool_at(base);
        struct block *block = pool ? pool_block(pool, base) : NULL;

        if (!block || block->state == BLOCK_LIVE)
                return CUDA_ERROR_INVALID_VALUE; /* still held from the last launch */
        return block_live(pool, stream->context, block);
}

/* ---- ends ---------------------------------------------------------------------------------- */

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!pool || pool->is_ended || pool == pool->device->default_pool || pool == pool->device->graph_pool)
                return CUDA_ERROR_INVALID_VALUE;
        pool->is_ended = true; /* allocations that are out stay good until they are freed */
        pool_trim(pool, 0);
        closep(&pool->fd);
        if (pool->n_backed || pool->blocks)
                return CUDA_SUCCESS;
        LIST_REMOVE(&pools, pool);
        (void)nv_uvm_free(&library.nv, pool->base, pool->size);
        addresses_release(pool->base, pool->size);
        free(pool->slot);
        free(pool);
        return CUDA_SUCCESS;
}
