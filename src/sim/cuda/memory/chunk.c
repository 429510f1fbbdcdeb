/* Small allocations: pieces of a chunk. See memory.h. */
#include "sim/cuda/memory/memory.h"

#include "base/cleanup.h"

#include <stdlib.h>

static bool is_used(const struct chunk *chunk, uint32_t piece)
{
        return chunk->used[piece / 64] >> piece % 64 & 1;
}

static void mark(struct chunk *chunk, uint32_t first, uint32_t n, bool used)
{
        for (uint32_t i = first; i < first + n; i++) {
                if (used)
                        chunk->used[i / 64] |= 1ull << i % 64;
                else
                        chunk->used[i / 64] &= ~(1ull << i % 64);
        }
        chunk->n_used = used ? chunk->n_used + n : chunk->n_used - n;
}

/* First fit. CHUNK_PIECES: no room. */
static uint32_t find_room(const struct chunk *chunk, uint32_t n)
{
        uint32_t have = 0;

        if (chunk->n_used + n > CHUNK_PIECES)
                return CHUNK_PIECES;
        for (uint32_t i = 0; i < CHUNK_PIECES; i++) {
                if (have == 0 && i % 64 == 0 && chunk->used[i / 64] == UINT64_MAX) {
                        i += 63;
                        continue;
                }
                have = is_used(chunk, i) ? 0 : have + 1;
                if (have == n)
                        return i + 1 - n;
        }
        return CHUNK_PIECES;
}

static CUresult chunk_new(CUcontext context, struct chunks *chunks, const struct chunk_maker *maker, struct chunk **ret)
{
        struct chunk *chunk = calloc(1, sizeof(*chunk));
        CUresult r;

        if (!chunk)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = maker->make(context, &chunk->mapping);
        if (r != CUDA_SUCCESS) {
                free(chunk);
                return r;
        }
        chunk->chunks = chunks;
        chunk->maker = maker;
        chunk->next = chunks->first;
        chunks->first = chunk;
        *ret = chunk;
        return CUDA_SUCCESS;
}

CUresult chunk_take(CUcontext context, struct chunks *chunks, const struct chunk_maker *maker, uint64_t size,
                    struct chunk **ret, uint64_t *ret_base)
{
        uint32_t n = (uint32_t)(round_up(size, CHUNK_PIECE) / CHUNK_PIECE), at = CHUNK_PIECES;
        struct chunk *chunk;
        CUresult r;

        for (chunk = chunks->first; chunk; chunk = chunk->next) {
                at = find_room(chunk, n);
                if (at < CHUNK_PIECES)
                        break;
        }
        if (!chunk) {
                r = chunk_new(context, chunks, maker, &chunk);
                if (r != CUDA_SUCCESS)
                        return r;
                at = 0;
        }
        mark(chunk, at, n, true);
        *ret = chunk;
        *ret_base = chunk->mapping->span.base + (uint64_t)at * CHUNK_PIECE;
        return CUDA_SUCCESS;
}

void chunk_give(CUcontext context, struct chunk *chunk, uint64_t base, uint64_t size)
{
        uint32_t first = (uint32_t)((base - chunk->mapping->span.base) / CHUNK_PIECE);

        mark(chunk, first, (uint32_t)(round_up(size, CHUNK_PIECE) / CHUNK_PIECE), false);
        if (chunk->n_used)
                return;
        LIST_REMOVE(&chunk->chunks->first, chunk);
        chunk->maker->unmake(context, chunk->mapping);
        free(chunk);
}
