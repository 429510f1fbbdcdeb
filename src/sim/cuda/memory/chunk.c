/* SPDX-License-Identifier: Apache-2.0 */
/* Small allocations: pieces of a chunk. See memory.h. */
#include "sim/cuda/memory/memory.h"

#include "base/cleanup.h"

#include <stdlib.h>

static bool piece_is_used(const struct chunk *chunk, uint32_t piece)
{
        return chunk->used[piece / 64] >> piece % 64 & 1;
}

static void pieces_mark(struct chunk *chunk, uint32_t first, uint32_t n, bool used)
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
static uint32_t pieces_find(const struct chunk *chunk, uint32_t n)
{
        uint32_t have = 0;

        if (chunk->n_used + n > CHUNK_PIECES)
                return CHUNK_PIECES;
        for (uint32_t i = 0; i < CHUNK_PIECES; i++) {
                if (have == 0 && i % 64 == 0 && chunk->used[i / 64] == UINT64_MAX) {
                        i += 63;
                        continue;
                }
                have = piece_is_used(chunk, i) ? 0 : have + 1;
                if (have == n)
                        return i + 1 - n;
        }
        return CHUNK_PIECES;
}

static CUresult chunk_new(CUcontext context, struct chunks *chunks, const struct allocator *allocator,
                          struct chunk **ret)
{
        struct chunk *chunk = calloc(1, sizeof(*chunk));
        CUresult r;

        if (!chunk)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = allocator->map(context, CHUNK_SIZE, &chunk->mapping);
        if (r != CUDA_SUCCESS) {
                free(chunk);
                return r;
        }
        chunk->chunks = chunks;
        chunk->allocator = allocator;
        chunk->next = chunks->first;
        chunks->first = chunk;
        *ret = chunk;
        return CUDA_SUCCESS;
}

CUresult chunk_take(CUcontext context, struct chunks *chunks, const struct allocator *allocator, uint64_t size,
                    struct chunk **ret, uint64_t *ret_base)
{
        uint32_t n = (uint32_t)(round_up(size, CHUNK_PIECE) / CHUNK_PIECE), at = CHUNK_PIECES;
        struct chunk *chunk;
        CUresult r;

        for (chunk = chunks->first; chunk; chunk = chunk->next) {
                at = pieces_find(chunk, n);
                if (at < CHUNK_PIECES)
                        break;
        }
        if (!chunk) {
                r = chunk_new(context, chunks, allocator, &chunk);
                if (r != CUDA_SUCCESS)
                        return r;
                at = 0;
        }
        pieces_mark(chunk, at, n, true);
        *ret = chunk;
        *ret_base = chunk->mapping->span.base + (uint64_t)at * CHUNK_PIECE;
        return CUDA_SUCCESS;
}

void chunk_give(struct chunk *chunk, uint64_t base, uint64_t size)
{
        uint32_t first = (uint32_t)((base - chunk->mapping->span.base) / CHUNK_PIECE);

        pieces_mark(chunk, first, (uint32_t)(round_up(size, CHUNK_PIECE) / CHUNK_PIECE), false);
        if (chunk->n_used)
                return;
        LIST_REMOVE(&chunk->chunks->first, chunk);
        chunk->allocator->unmap(chunk->mapping);
        free(chunk);
}
