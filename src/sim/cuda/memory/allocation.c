/* What the program was given, and how each kind of it ends. */
#include "sim/cuda/memory/memory.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/memory/managed.h"
#include "sim/cuda/driver/place.h"
#include "sim/cuda/memory/pool.h"

#include <stdlib.h>
#include <sys/mman.h>

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

static void large_end(struct allocation *allocation)
{
        struct mapping *mapping = allocation->mapping;
        uint64_t base = mapping->span.base, size = mapping->span.size;

        p2p_unregister(mapping->memory);
        allocation->mapping = mapping_free(mapping);
        place_give(base, size);
}

CUresult allocation_end(struct allocation *allocation)
{
        struct mapping *mapping = allocation->mapping;
        uint64_t base = allocation->span.base, size = allocation->span.size;

        switch (allocation->kind) {
        case ALLOCATION_SMALL:
        case ALLOCATION_HOST_SMALL:
                chunk_give(allocation->context, allocation->chunk, base, size);
                break;
        case ALLOCATION_LARGE:
                large_end(allocation);
                break;
        case ALLOCATION_MANAGED:
                managed_end(allocation);
                break;
        case ALLOCATION_HOST:
                (void)mapping_free(mapping);
                (void)munmap((void *)(uintptr_t)base, size);
                break;
        case ALLOCATION_REGISTERED:
                (void)mapping_free(mapping);
                break;
        case ALLOCATION_POOL:
                pool_give(allocation, (struct mark){ 0 });
                return CUDA_SUCCESS;
        case ALLOCATION_ARRAY:
        case ALLOCATION_IPC:
                if (allocation->chunk) {
                        chunk_give(allocation->context, allocation->chunk, base, size);
                        break;
                }
                (void)mapping_free(mapping);
                place_give(base, size);
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
