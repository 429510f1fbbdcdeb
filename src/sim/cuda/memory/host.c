/*
 * Memory of the host that the device reaches: pages that the driver pins (ioctl 0x27, class 0x71,
 * on the device's node) and UVM maps at the same address. Recorded for both cuMemAllocHost and
 * cuMemHostRegister: 0x27, UVM 73, UVM 33; freeing is UVM 34, FREE.
 *
 * Less than 2 MiB of cuMemAllocHost is a piece of a pinned chunk; also recorded.
 */
#include "sim/cuda/context/stream.h"

#include "rm/numbers.h"

#include <sys/mman.h>
#include <unistd.h>

enum {
        PIN_FLAGS = 0x40001010,
        HOST_FLAGS = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED,
        REGISTER_FLAGS = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY,
};

static CUresult pin(CUcontext context, void *pages, uint64_t size, struct mapping **ret)
{
        struct memory *memory;
        CUresult r = memory_pinned(context->device, pages, size, PIN_FLAGS, &memory);

        if (r != CUDA_SUCCESS)
                return r;
        r = mapping_new(memory, (uintptr_t)pages, size, 0, true, ret);
        (void)memory_unref(memory);
        return r;
}

/* Fresh pages at a 2 MiB boundary. */
static void *pages_new(uint64_t size)
{
        const uint64_t align = CHUNK_SIZE;
        uint8_t *at = mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint64_t before;

        if (at == MAP_FAILED)
                return NULL;
        before = round_up((uintptr_t)at, align) - (uintptr_t)at;
        if (before)
                (void)munmap(at, before);
        (void)munmap(at + before + size, align - before);
        return at + before;
}

static CUresult pages_pinned(CUcontext context, uint64_t size, struct mapping **ret)
{
        void *pages = pages_new(size);
        CUresult r;

        if (!pages)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = pin(context, pages, size, ret);
        if (r != CUDA_SUCCESS)
                (void)munmap(pages, size);
        return r;
}

static CUresult make_chunk(CUcontext context, struct mapping **ret)
{
        return pages_pinned(context, CHUNK_SIZE, ret);
}

static void unmake_chunk(CUcontext context, struct mapping *mapping)
{
        void *pages = mapping->memory->bytes;

        (void)context;
        (void)mapping_free(mapping);
        (void)munmap(pages, CHUNK_SIZE);
}

static const struct chunk_maker host_chunks = { make_chunk, unmake_chunk };

static CUresult host_alloc(CUcontext context, uint64_t bytes, void **ret)
{
        struct allocation *allocation = NULL;
        struct mapping *mapping = NULL;
        struct chunk *chunk = NULL;
        bool is_small = bytes <= CHUNK_LARGEST;
        uint64_t base = 0, size = is_small ? bytes : round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
        CUresult r;

        if (is_small)
                r = chunk_take(context, &context->host_chunks, &host_chunks, bytes, &chunk, &base);
        else
                r = pages_pinned(context, size, &mapping);
        if (r != CUDA_SUCCESS)
                return r;
        if (mapping)
                base = mapping->span.base;
        r = allocation_new(context, is_small ? ALLOCATION_HOST_SMALL : ALLOCATION_HOST, base, size, &allocation);
        if (r != CUDA_SUCCESS) {
                if (is_small) {
                        chunk_give(context, chunk, base, bytes);
                } else {
                        (void)mapping_free(mapping);
                        (void)munmap((void *)(uintptr_t)base, size);
                }
                return r;
        }
        allocation->mapping = mapping;
        allocation->chunk = chunk;
        *ret = (void *)(uintptr_t)base;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !bytes || (flags & ~(unsigned int)HOST_FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        return host_alloc(context, bytes, at);
}

CUresult CUDAAPI cuMemAllocHost_v2(void **at, size_t bytes)
{
        return cuMemHostAlloc(at, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult CUDAAPI cuMemFreeHost(void *at)
{
        LOCKED_LIBRARY;
        struct allocation *allocation;
        CUcontext context;
        CUresult r = enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        allocation = allocation_named((uintptr_t)at);
        if (!allocation || (allocation->kind != ALLOCATION_HOST && allocation->kind != ALLOCATION_HOST_SMALL))
                return CUDA_ERROR_INVALID_VALUE;
        r = context_wait(allocation->context);
        return r == CUDA_SUCCESS ? allocation_end(allocation) : r;
}

static const struct allocation *host_at(const void *at)
{
        const struct allocation *allocation = allocation_at((uintptr_t)at);

        if (!allocation)
                return NULL;
        switch (allocation->kind) {
        case ALLOCATION_HOST:
        case ALLOCATION_HOST_SMALL:
        case ALLOCATION_REGISTERED:
        case ALLOCATION_MANAGED:
                return allocation;
        default:
                return NULL;
        }
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *at, unsigned int flags)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!device || flags || !host_at(at))
                return CUDA_ERROR_INVALID_VALUE;
        *device = (uintptr_t)at;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
        LOCKED_LIBRARY;
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)at / page * page;
        struct allocation *allocation;
        struct mapping *mapping;
        CUcontext context;
        CUresult r = enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !bytes || (flags & ~(unsigned int)REGISTER_FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        if (allocation_at((uintptr_t)at))
                return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        r = pin(context, (void *)(uintptr_t)base, round_up((uintptr_t)at + bytes, page) - base, &mapping);
        if (r != CUDA_SUCCESS)
                return r;
        r = allocation_new(context, ALLOCATION_REGISTERED, (uintptr_t)at, bytes, &allocation);
        if (r != CUDA_SUCCESS) {
                (void)mapping_free(mapping);
                return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        }
        allocation->mapping = mapping;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostUnregister(void *at)
{
        LOCKED_LIBRARY;
        struct allocation *allocation;
        CUcontext context;
        CUresult r = enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        allocation = allocation_named((uintptr_t)at);
        if (!allocation || allocation->kind != ALLOCATION_REGISTERED)
                return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        r = context_wait(allocation->context);
        return r == CUDA_SUCCESS ? allocation_end(allocation) : r;
}
