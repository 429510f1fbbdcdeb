/* What an address is. */
#include "sim/cuda/memory.h"

#include <string.h>

static bool is_host_kind(enum allocation_kind kind)
{
        return kind == ALLOCATION_HOST || kind == ALLOCATION_HOST_SMALL || kind == ALLOCATION_REGISTERED;
}

#define ANSWER(type, what)                                                                                             \
        do {                                                                                                           \
                type answer_ = (what);                                                                                 \
                memcpy(value, &answer_, sizeof(answer_));                                                              \
        } while (0)

static CUresult attribute_of(const struct allocation *a, CUdeviceptr at, CUpointer_attribute attribute, void *value)
{
        const struct mapping *mapping = mapping_at(at);
        bool is_host = is_host_kind(a->kind), is_managed = a->kind == ALLOCATION_MANAGED;

        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
                ANSWER(CUcontext, a->context);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
                ANSWER(unsigned int, is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
                ANSWER(CUdeviceptr, at);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
                if (!is_host && !is_managed)
                        return CUDA_ERROR_INVALID_VALUE;
                ANSWER(void *, (void *)(uintptr_t)at);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
                ANSWER(int, 0);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
                ANSWER(unsigned long long, a->id);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
                ANSWER(int, is_managed);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
                if (!mapping)
                        return CUDA_ERROR_INVALID_VALUE;
                ANSWER(int, (int)(mapping->memory->device - library.device));
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
                ANSWER(int, a->kind == ALLOCATION_SMALL || a->kind == ALLOCATION_LARGE);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
                ANSWER(CUdeviceptr, a->span.base);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
                ANSWER(size_t, a->span.size);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MAPPED:
                ANSWER(int, mapping != NULL);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
                ANSWER(unsigned long long, 0);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
                ANSWER(CUmemoryPool, a->pool);
                return CUDA_SUCCESS;
        }
        return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr at)
{
        LOCKED_LIBRARY;
        const struct allocation *allocation;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        allocation = allocation_at(at);
        if (!value || !allocation)
                return CUDA_ERROR_INVALID_VALUE;
        return attribute_of(allocation, at, attribute, value);
}

/* An address that nobody knows has attributes, too: zeros. Recognised by runtimes that probe so. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes, void **values, CUdeviceptr at)
{
        LOCKED_LIBRARY;
        const struct allocation *allocation;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!n || !attributes || !values)
                return CUDA_ERROR_INVALID_VALUE;
        allocation = allocation_at(at);
        for (unsigned int i = 0; i < n; i++) {
                bool is_word = attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                               attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                               attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ||
                               attributes[i] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
                               attributes[i] == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE ||
                               attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED;

                if (!allocation || attribute_of(allocation, at, attributes[i], values[i]) != CUDA_SUCCESS)
                        memset(values[i], 0, is_word ? sizeof(int) : sizeof(uint64_t));
        }
        return CUDA_SUCCESS;
}
