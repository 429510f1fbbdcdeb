/* SPDX-License-Identifier: Apache-2.0 */
/* What the program was given, and how each kind of it ends. */
#include "sim/cuda/memory/memory.h"

#include "base/cleanup.h"
#include "sim/cuda/memory/managed.h"
#include "sim/cuda/memory/pool.h"

#include <stdlib.h>

static struct spans allocations;

CUresult allocation_new(CUcontext context, enum allocation_kind kind, uint64_t base, uint64_t size,
                        struct allocation **ret)
{
        _cleanup_(freep) struct allocation *allocation = calloc(1, sizeof(*allocation));

        if (!allocation)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *allocation = (struct allocation){ .span = { base, size }, .kind = kind, .context = context };
        if (spans_put(&allocations, &allocation->span) < 0)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *ret = TAKE(allocation);
        return CUDA_SUCCESS;
}

struct allocation *allocation_free(struct allocation *allocation)
{
        if (allocation)
                spans_take(&allocations, &allocation->span);
        free(allocation);
        return NULL;
}

struct allocation *allocation_at(uint64_t address)
{
        return (struct allocation *)spans_find(&allocations, address);
}

struct allocation *allocation_named(uint64_t base)
{
        struct allocation *allocation = allocation_at(base);

        return allocation && allocation->span.base == base ? allocation : NULL;
}

CUresult allocation_make(CUcontext context, enum allocation_kind kind, struct chunks *chunks,
                         const struct allocator *allocator, uint64_t size, uint64_t bytes, struct allocation **ret)
{
        struct mapping *mapping = NULL;
        struct chunk *chunk = NULL;
        uint64_t base = 0;
        CUresult r;

        if (size <= CHUNK_LARGEST)
                r = chunk_take(context, chunks, allocator, size, &chunk, &base);
        else
                r = allocator->map(context, size, &mapping);
        if (r != CUDA_SUCCESS)
                return r;
        r = allocation_new(context, kind, mapping ? mapping->span.base : base, bytes, ret);
        if (r != CUDA_SUCCESS) {
                if (mapping)
                        allocator->unmap(mapping);
                else
                        chunk_give(chunk, base, size);
                return r;
        }
        (*ret)->mapping = mapping;
        (*ret)->chunk = chunk;
        (*ret)->allocator = allocator;
        return CUDA_SUCCESS;
}

void allocation_unmake(struct allocation *allocation, uint64_t size)
{
        if (allocation->chunk)
                chunk_give(allocation->chunk, allocation->span.base, size);
        else
                allocation->allocator->unmap(allocation->mapping);
}

CUresult allocation_end(struct allocation *allocation)
{
        switch (allocation->kind) {
        case ALLOCATION_DEVICE:
        case ALLOCATION_HOST:
        case ALLOCATION_ARRAY:
                allocation_unmake(allocation, allocation->span.size);
                break;
        case ALLOCATION_MANAGED:
                managed_end(allocation);
                break;
        case ALLOCATION_REGISTERED:
                (void)mapping_free(allocation->mapping);
                break;
        case ALLOCATION_POOL:
                pool_give(allocation, (struct mark){ 0 });
                return CUDA_SUCCESS;
        case ALLOCATION_IPC:
                (void)mapping_end(allocation->mapping);
                break;
        case ALLOCATION_VIRTUAL: /* ends with cuMemUnmap */
                return CUDA_ERROR_INVALID_VALUE;
        }
        (void)allocation_free(allocation);
        return CUDA_SUCCESS;
}

void allocations_end(CUcontext context)
{
        for (size_t i = allocations.n; i-- > 0;) {
                struct allocation *allocation = (struct allocation *)allocations.span[i];

                if (allocation->context != context || allocation->kind == ALLOCATION_VIRTUAL ||
                    allocation->kind == ALLOCATION_POOL)
                        continue; /* these live with the device */
                (void)allocation_end(allocation);
                if (i > allocations.n) /* a chunk took others with it */
                        i = allocations.n;
        }
}
