/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of copies and fills: shapes of one kind of op, waited for or not. */
#include "sim/cuda/context/stream.h"

#include <string.h>

/* Waits: what a synchronous call promises, in the order of the NULL stream. */
static CUresult op_submit(CUstream name, const struct op *op, bool waits)
{
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r == CUDA_SUCCESS && waits && stream->capture)
                r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (r == CUDA_SUCCESS)
                r = stream_submit(stream, op);
        return r == CUDA_SUCCESS && waits ? stream_wait(stream) : r;
}

static CUresult copy_linear(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from, size_t bytes,
                            CUstream stream, bool waits)
{
        LOCKED_LIBRARY;
        struct op op = { .kind = OP_COPY };

        op.copy.srcMemoryType = from_type;
        op.copy.srcHost = (const void *)(uintptr_t)from;
        op.copy.srcDevice = from;
        op.copy.dstMemoryType = to_type;
        op.copy.dstHost = (void *)(uintptr_t)to;
        op.copy.dstDevice = to;
        op.copy.WidthInBytes = bytes;
        op.copy.Height = 1;
        op.copy.Depth = 1;
        return op_submit(stream, &op, waits);
}

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define ANY CU_MEMORYTYPE_UNIFIED

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
        return copy_linear(DEVICE, to, ANY, (uintptr_t)from, bytes, NULL, true);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
        return copy_linear(ANY, (uintptr_t)to, DEVICE, from, bytes, NULL, true);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
        return copy_linear(DEVICE, to, DEVICE, from, bytes, NULL, true);
}

/* Addresses are the same for all devices, so the contexts say nothing more. */
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                   size_t bytes, CUstream stream)
{
        if (!to_context || !from_context)
                return CUDA_ERROR_INVALID_VALUE;
        return copy_linear(DEVICE, to, DEVICE, from, bytes, stream, false);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
        return copy_linear(DEVICE, to, ANY, (uintptr_t)from, bytes, stream, false);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
        return copy_linear(ANY, (uintptr_t)to, DEVICE, from, bytes, stream, false);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool waits)
{
        LOCKED_LIBRARY;
        struct op op = { .kind = OP_COPY };

        if (!c)
                return CUDA_ERROR_INVALID_VALUE;
        op.copy.srcXInBytes = c->srcXInBytes;
        op.copy.srcY = c->srcY;
        op.copy.srcMemoryType = c->srcMemoryType;
        op.copy.srcHost = c->srcHost;
        op.copy.srcDevice = c->srcDevice;
        op.copy.srcArray = c->srcArray;
        op.copy.srcPitch = c->srcPitch;
        op.copy.dstXInBytes = c->dstXInBytes;
        op.copy.dstY = c->dstY;
        op.copy.dstMemoryType = c->dstMemoryType;
        op.copy.dstHost = c->dstHost;
        op.copy.dstDevice = c->dstDevice;
        op.copy.dstArray = c->dstArray;
        op.copy.dstPitch = c->dstPitch;
        op.copy.WidthInBytes = c->WidthInBytes;
        op.copy.Height = c->Height;
        op.copy.Depth = 1;
        return op_submit(stream, &op, waits);
}

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
        return copy_2d(copy, NULL, true);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, bool waits)
{
        LOCKED_LIBRARY;
        struct op op = { .kind = OP_COPY };

        if (!copy || copy->reserved0 || copy->reserved1)
                return CUDA_ERROR_INVALID_VALUE;
        op.copy = *copy;
        return op_submit(stream, &op, waits);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
        return copy_3d(copy, NULL, true);
}

static CUresult set(CUdeviceptr at, unsigned int value, unsigned int element, size_t n, CUstream stream)
{
        LOCKED_LIBRARY;
        struct op op = { .kind = OP_SET };

        op.set.dst = at;
        op.set.value = value;
        op.set.elementSize = element;
        op.set.width = n;
        op.set.height = 1;
        return op_submit(stream, &op, false); /* fills of device memory do not wait, also the plain ones */
}

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr at, unsigned char value, size_t n)
{
        return set(at, value, 1, n, NULL);
}

CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr at, unsigned int value, size_t n)
{
        return set(at, value, 4, n, NULL);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr at, unsigned int value, size_t n, CUstream stream)
{
        return set(at, value, 4, n, stream);
}
