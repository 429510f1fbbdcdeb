/* SPDX-License-Identifier: Apache-2.0 */
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

static CUresult pages_pin(CUcontext context, void *pages, uint64_t size, struct mapping **ret)
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
        r = pages_pin(context, pages, size, ret);
        if (r != CUDA_SUCCESS)
                (void)munmap(pages, size);
        return r;
}

static void pages_unpinned(struct mapping *mapping)
{
        void *pages = mapping->memory->bytes;
        uint64_t size = mapping->span.size;

        (void)mapping_free(mapping);
        (void)munmap(pages, size);
}

CUresult CUDAAPI cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
        LOCKED_LIBRARY;
        static const struct allocator allocator = { pages_pinned, pages_unpinned };
        uint64_t size = bytes <= CHUNK_LARGEST ? bytes : round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
        struct allocation *allocation;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !bytes || (flags & ~(unsigned int)HOST_FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        r = allocation_make(context, ALLOCATION_HOST, &context->host_chunks, &allocator, size, size, &allocation);
        if (r == CUDA_SUCCESS)
                *at = (void *)(uintptr_t)allocation->span.base;
        return r;
}

CUresult CUDAAPI cuMemAllocHost_v2(void **at, size_t bytes)
{
        return cuMemHostAlloc(at, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
}

/* Waits for what may still use it. `missing`: nothing of that kind begins there. */
static CUresult host_end(const void *at, enum allocation_kind kind, CUresult missing)
{
        LOCKED_LIBRARY;
        struct allocation *allocation;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        allocation = allocation_named((uintptr_t)at);
        if (!allocation || allocation->kind != kind)
                return missing;
        r = context_wait(allocation->context);
        return r == CUDA_SUCCESS ? allocation_end(allocation) : r;
}

CUresult CUDAAPI cuMemFreeHost(void *at)
{
        return host_end(at, ALLOCATION_HOST, CUDA_ERROR_INVALID_VALUE);
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *at, unsigned int flags)
{
        LOCKED_LIBRARY;
        const struct allocation *allocation = allocation_at((uintptr_t)at);
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!device || flags || !allocation ||
            (allocation->kind != ALLOCATION_HOST && allocation->kind != ALLOCATION_REGISTERED &&
             allocation->kind != ALLOCATION_MANAGED))
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
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !bytes || (flags & ~(unsigned int)REGISTER_FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        if (allocation_at((uintptr_t)at))
                return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        r = pages_pin(context, (void *)(uintptr_t)base, round_up((uintptr_t)at + bytes, page) - base, &mapping);
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
        return host_end(at, ALLOCATION_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}
