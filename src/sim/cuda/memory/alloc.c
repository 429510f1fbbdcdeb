/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemAlloc and its kin. Recorded: class 0x40 of the size, GPUDirect registration (503c0104), UVM
 * 73, UVM 33; freeing is 503c0105, UVM 34, FREE. An allocation that fails for lack of memory is tried a
 * second time. Less than 2 MiB is a piece of a chunk, which is allocated in the same way.
 */
#include "sim/cuda/context/stream.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"

#include <string.h>

uint32_t p2p_register(const struct memory *memory)
{
        uint8_t params[32] = { 0 };

        rm_put32(params, sizeof(params), 0, memory->handle);
        rm_put64(params, sizeof(params), 8, memory->registered);
        rm_put64(params, sizeof(params), 16, memory->size);
        return nv_control(&library.nv, start_handle(&memory->device->start, NULL, OBJECT_P2P), 0x503c0104, params,
                          sizeof(params));
}

void p2p_unregister(const struct memory *memory)
{
        uint8_t params[4] = { 0 };

        rm_put32(params, sizeof(params), 0, memory->handle);
        (void)nv_control(&library.nv, start_handle(&memory->device->start, NULL, OBJECT_P2P), 0x503c0105, params,
                         sizeof(params));
}

/* Memory of its own, registered and mapped. */
static CUresult map_large(CUcontext context, uint64_t bytes, struct mapping **ret)
{
        struct memory *memory;
        uint64_t base;
        CUresult r = memory_video(context->device, bytes, ATTR_LINEAR, &memory);

        if (r == CUDA_ERROR_OUT_OF_MEMORY)
                r = memory_video(context->device, bytes, ATTR_LINEAR, &memory);
        if (r != CUDA_SUCCESS)
                return r;
        base = addresses_reserve(memory->size, ADDRESS_GRANULE);
        if (!base) {
                (void)memory_unref(memory);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memory->registered = base;
        r = result_of(p2p_register(memory));
        if (r == CUDA_SUCCESS) {
                r = mapping_new(memory, base, memory->size, 0, true, ret);
                if (r == CUDA_SUCCESS) {
                        r = peers_see(*ret);
                        if (r != CUDA_SUCCESS)
                                (void)mapping_free(*ret);
                }
                if (r != CUDA_SUCCESS)
                        p2p_unregister(memory);
        }
        if (r != CUDA_SUCCESS)
                addresses_release(base, memory->size);
        (void)memory_unref(memory); /* the mapping has its own reference */
        return r;
}

static void unmap_large(struct mapping *mapping)
{
        p2p_unregister(mapping->memory);
        (void)mapping_end(mapping);
}

static CUresult allocate(CUcontext context, uint64_t bytes, CUdeviceptr *ret)
{
        static const struct allocator allocator = { map_large, unmap_large };
        struct allocation *allocation;
        CUresult r =
                allocation_make(context, ALLOCATION_DEVICE, &context->chunks, &allocator, bytes, bytes, &allocation);

        if (r == CUDA_SUCCESS)
                *ret = allocation->span.base;
        return r;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !bytes)
                return CUDA_ERROR_INVALID_VALUE;
        return allocate(context, bytes, at);
}

/* Rows padded to 512 bytes: recorded for rows of 4000. */
CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned int element)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);
        uint64_t row = round_up(width, CHUNK_PIECE);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
                return CUDA_ERROR_INVALID_VALUE;
        if (row > UINT64_MAX / height)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = allocate(context, row * height, at);
        if (r == CUDA_SUCCESS)
                *pitch = row;
        return r;
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr at)
{
        LOCKED_LIBRARY;
        struct allocation *allocation;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!at)
                return CUDA_SUCCESS;
        allocation = allocation_named(at);
        if (!allocation)
                return CUDA_ERROR_INVALID_VALUE;
        switch (allocation->kind) {
        case ALLOCATION_DEVICE:
        case ALLOCATION_MANAGED:
        case ALLOCATION_POOL:
                break;
        default: /* ends another way */
                return CUDA_ERROR_INVALID_VALUE;
        }
        r = context_wait(allocation->context); /* freeing waits for what may still use it */
        return r == CUDA_SUCCESS ? allocation_end(allocation) : r;
}

/* One FB_GET_INFO_V2 with these three indexes: recorded. */
CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
        LOCKED_LIBRARY;
        static const uint32_t index[] = { RM_FB_HEAP_FREE, RM_FB_HEAP_SIZE, RM_FB_TAX };
        uint32_t kib[ARRAY_SIZE(index)], status;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!free_bytes || !total)
                return CUDA_ERROR_INVALID_VALUE;
        status = nv_fb_info(&library.nv, start_handle(&context->device->start, NULL, OBJECT_SUBDEVICE), index, kib,
                            ARRAY_SIZE(index));
        if (status != RM_STATUS_OK)
                return result_of(status);
        *free_bytes = (size_t)kib[0] << 10;
        *total = (size_t)kib[1] << 10;
        return CUDA_SUCCESS;
}
