/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: a mapping of nvidia-uvm at the address that it will have everywhere, which no
 * call of the resource manager ever mentions. Recorded: mmap, UVM 72, UVM 45; freeing is UVM 31,
 * 45, 47 for the device and for the host, 43, munmap. Less than 2 MiB is a piece of a chunk.
 */
#include "sim/cuda/memory/managed.h"

#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"
#include "sim/cuda/context/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
        VALIDATE_RANGE = 72,
        DISABLE_READ_DUPLICATION = 45,
        ENABLE_READ_DUPLICATION = 44,
        SET_RANGE_GROUP = 31,
        SET_ACCESSED_BY = 46,
        UNSET_ACCESSED_BY = 47,
        SET_PREFERRED_LOCATION = 42,
        UNSET_PREFERRED_LOCATION = 43,
        MIGRATE = 51,
        MIGRATE_SEMAPHORE = 0x4a03fe0, /* in the context's stretch LOW; recorded */
        PAGE = 4096,
};

/* UVM's name for the host: recorded, the same everywhere. */
static const uint8_t host_uuid[16] = { 0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4, 0x7b, 0xa2,
                                       0x50, 0x47, 0x41, 0x2c, 0x14, 0x2a, 0x77, 0x73 };

/* The real library's result for a failed mmap. Measured for every errno, H200, 580.159.04. */
static CUresult result_of_mmap(int error)
{
        switch (error) {
        case EPERM:
                return CUDA_ERROR_NOT_PERMITTED;
        case EOPNOTSUPP:
                return CUDA_ERROR_NOT_SUPPORTED;
        case EINVAL:
        case EADDRINUSE:
                return CUDA_ERROR_INVALID_VALUE;
        default:
                return CUDA_ERROR_UNKNOWN;
        }
}

/* A range of UVM, at an address that the library chooses. */
static CUresult map_managed(CUcontext context, uint64_t size, struct mapping **ret)
{
        const struct nv *nv = &library.nv;
        struct memory *memory = NULL;
        uint64_t base = addresses_reserve(size, ADDRESS_GRANULE);
        void *at;
        uint32_t status;
        CUresult r;

        if (!base)
                return CUDA_ERROR_OUT_OF_MEMORY;
        at = mmap((void *)(uintptr_t)base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, nv->uvm, (off_t)base);
        if (at == MAP_FAILED) {
                r = result_of_mmap(errno);
                addresses_release(base, size);
                return r;
        }
        status = nv_uvm_range(nv, VALIDATE_RANGE, base, size);
        if (status == RM_STATUS_OK)
                status = nv_uvm_range(nv, DISABLE_READ_DUPLICATION, base, size);
        r = result_of(status);
        if (r == CUDA_SUCCESS)
                r = memory_managed(context->device, at, size, &memory);
        if (r == CUDA_SUCCESS) {
                r = mapping_new(memory, base, size, 0, true, ret);
                (void)memory_unref(memory);
        }
        if (r != CUDA_SUCCESS)
                (void)munmap(at, size);
        return r;
}

static void unmap_managed(struct mapping *mapping)
{
        uint64_t base = mapping->span.base, size = mapping->span.size;

        (void)mapping_free(mapping);
        (void)munmap((void *)(uintptr_t)base, size);
}

/* Resets all advice about the pages, then frees them. */
void managed_end(struct allocation *allocation)
{
        const struct nv *nv = &library.nv;
        uint64_t base = allocation->span.base, size = round_up(allocation->span.size, PAGE);
        uint8_t block[32] = { 0 };

        rm_put64(block, sizeof(block), 8, base); /* group 0: none */
        rm_put64(block, sizeof(block), 16, size);
        (void)nv_uvm(nv, SET_RANGE_GROUP, block, 24);
        (void)nv_uvm_range(nv, DISABLE_READ_DUPLICATION, base, size);
        (void)nv_uvm_range_of(nv, UNSET_ACCESSED_BY, base, size, allocation->context->device->start.uuid);
        (void)nv_uvm_range_of(nv, UNSET_ACCESSED_BY, base, size, host_uuid);
        (void)nv_uvm_range(nv, UNSET_PREFERRED_LOCATION, base, size);
        allocation_unmake(allocation, size);
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *at, size_t bytes, unsigned int flags)
{
        LOCKED_LIBRARY;
        static const struct allocator allocator = { map_managed, unmap_managed };
        struct allocation *allocation;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
                return CUDA_ERROR_INVALID_VALUE;
        r = allocation_make(context, ALLOCATION_MANAGED, &context->managed_chunks, &allocator, round_up(bytes, PAGE),
                            bytes, &allocation);
        if (r == CUDA_SUCCESS)
                *at = allocation->span.base;
        return r;
}

static CUresult managed_at(CUdeviceptr at, size_t bytes)
{
        const struct allocation *allocation = allocation_at(at);

        if (!allocation || allocation->kind != ALLOCATION_MANAGED || !bytes ||
            bytes > allocation->span.base + allocation->span.size - at)
                return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
}

static const uint8_t *uuid_of(CUmemLocation location)
{
        const struct device *device;

        if (location.type == CU_MEM_LOCATION_TYPE_HOST)
                return host_uuid;
        device = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_of(location.id) : NULL;
        return device ? device->start.uuid : NULL;
}

/* Each advice is one UVM request; setting locations, accessors and read-mostly are recorded. */
CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr at, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
        LOCKED_LIBRARY;
        const struct nv *nv = &library.nv;
        const uint8_t *uuid = uuid_of(location);
        uint8_t block[40] = { 0 };
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r == CUDA_SUCCESS)
                r = managed_at(at, bytes);
        if (r != CUDA_SUCCESS)
                return r;
        switch (advice) {
        case CU_MEM_ADVISE_SET_READ_MOSTLY:
                return result_of(nv_uvm_range(nv, ENABLE_READ_DUPLICATION, at, bytes));
        case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
                return result_of(nv_uvm_range(nv, DISABLE_READ_DUPLICATION, at, bytes));
        case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
                if (!uuid)
                        return CUDA_ERROR_INVALID_DEVICE;
                rm_put64(block, sizeof(block), 0, at);
                rm_put64(block, sizeof(block), 8, bytes);
                memcpy(block + 16, uuid, 16);
                return result_of(nv_uvm(nv, SET_PREFERRED_LOCATION, block, nv->layout.uvm_set_location_status_at));
        case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
                return result_of(nv_uvm_range(nv, UNSET_PREFERRED_LOCATION, at, bytes));
        case CU_MEM_ADVISE_SET_ACCESSED_BY:
                return uuid ? result_of(nv_uvm_range_of(nv, SET_ACCESSED_BY, at, bytes, uuid)) :
                              CUDA_ERROR_INVALID_DEVICE;
        case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
                return uuid ? result_of(nv_uvm_range_of(nv, UNSET_ACCESSED_BY, at, bytes, uuid)) :
                              CUDA_ERROR_INVALID_DEVICE;
        }
        return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr at, size_t bytes, CUmemLocation location, unsigned int flags,
                                       CUstream name)
{
        LOCKED_LIBRARY;
        const uint8_t *uuid = uuid_of(location);
        uint8_t block[80] = { 0 };
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r == CUDA_SUCCESS)
                r = managed_at(at, bytes);
        if (r != CUDA_SUCCESS)
                return r;
        if (!uuid)
                return CUDA_ERROR_INVALID_DEVICE;
        if (flags)
                return CUDA_ERROR_INVALID_VALUE;
        rm_put64(block, sizeof(block), 0, at);
        rm_put64(block, sizeof(block), 8, bytes);
        memcpy(block + 16, uuid, 16);
        rm_put32(block, sizeof(block), 32, 1); /* asynchronous: the semaphore says when */
        rm_put64(block, sizeof(block), 40, stream->context->start.low + MIGRATE_SEMAPHORE);
        rm_put32(block, sizeof(block), 48, 1);
        return result_of(nv_uvm(&library.nv, MIGRATE, block, 72));
}
