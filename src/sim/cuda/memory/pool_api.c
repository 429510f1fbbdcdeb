/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of pools. */
#include "sim/cuda/memory/pool.h"

#include <string.h>

static CUresult pool_enter(CUmemoryPool pool)
{
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        return pool && !pool->is_ended ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice ordinal)
{
        LOCKED_LIBRARY;
        struct device *device;
        CUresult r = device_enter(ordinal, &device);

        if (r != CUDA_SUCCESS)
                return r;
        return pool ? pool_of_device(device, pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();
        struct device *device;

        if (r != CUDA_SUCCESS)
                return r;
        if (!pool || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
                return CUDA_ERROR_INVALID_VALUE;
        if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
                return CUDA_ERROR_NOT_SUPPORTED;
        device = device_of(properties->location.id);
        if (!device)
                return CUDA_ERROR_INVALID_DEVICE;
        if ((int)properties->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                return CUDA_ERROR_NOT_SUPPORTED;
        return pool_new(device, properties, pool);
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
        LOCKED_LIBRARY;
        CUresult r = pool_enter(pool);

        if (r == CUDA_SUCCESS)
                pool_trim(pool, keep);
        return r;
}

/* Every device reaches every address here: the arguments are checked, and access is granted. */
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n)
{
        LOCKED_LIBRARY;
        CUresult r = pool_enter(pool);

        if (r == CUDA_SUCCESS && n && !access)
                r = CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
                if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_of(access[i].location.id))
                        r = CUDA_ERROR_INVALID_DEVICE;
        return r;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
        LOCKED_LIBRARY;
        CUresult r = pool_enter(pool);

        if (r != CUDA_SUCCESS)
                return r;
        if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE || !device_of(location->id))
                return CUDA_ERROR_INVALID_VALUE;
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream name)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r == CUDA_SUCCESS)
                r = pool_enter(pool);
        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !bytes || pool->is_imported)
                return CUDA_ERROR_INVALID_VALUE;
        if (stream->capture)
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        return pool_take(pool, stream, bytes, at);
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream name)
{
        LOCKED_LIBRARY;
        CUmemoryPool pool;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !bytes)
                return CUDA_ERROR_INVALID_VALUE;
        if (stream->capture)
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        r = pool_of_device(stream->context->device, &pool);
        return r == CUDA_SUCCESS ? pool_take(pool, stream, bytes, at) : r;
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr at, CUstream name)
{
        LOCKED_LIBRARY;
        const struct allocation *allocation;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        allocation = allocation_named(at);
        if (!at || !allocation || (allocation->kind != ALLOCATION_POOL && allocation->kind != ALLOCATION_DEVICE))
                return CUDA_ERROR_INVALID_VALUE;
        return stream_submit(stream, &(struct op){ .kind = OP_FREE, .at = at });
}
