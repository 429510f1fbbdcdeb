/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about devices that need no context. */
#include "sim/cuda/state.h"

#include <stdio.h>
#include <string.h>

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
        LOCKED_LIBRARY;
        struct device *found;
        CUresult r = device_enter(ordinal, &found);

        if (r != CUDA_SUCCESS)
                return r;
        if (!device)
                return CUDA_ERROR_INVALID_VALUE;
        *device = ordinal;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!count)
                return CUDA_ERROR_INVALID_VALUE;
        *count = library.n_devices;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device)
{
        LOCKED_LIBRARY;
        struct device *found;
        CUresult r = device_enter(device, &found);

        if (r != CUDA_SUCCESS)
                return r;
        if (!name || size < 1)
                return CUDA_ERROR_INVALID_VALUE;
        (void)snprintf(name, (size_t)size, "%s", found->start.name);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
        LOCKED_LIBRARY;
        struct device *found;
        CUresult r = device_enter(device, &found);

        if (r != CUDA_SUCCESS)
                return r;
        if (!uuid)
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(uuid->bytes, found->start.uuid, sizeof(uuid->bytes));
        return CUDA_SUCCESS;
}

/* As of cuInit: the real library does not query it again. */
CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
        LOCKED_LIBRARY;
        struct device *found;
        CUresult r = device_enter(device, &found);

        if (r != CUDA_SUCCESS)
                return r;
        if (!bytes)
                return CUDA_ERROR_INVALID_VALUE;
        *bytes = found->start.total;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
        LOCKED_LIBRARY;
        struct device *found;
        CUresult r = device_enter(device, &found);

        if (r != CUDA_SUCCESS)
                return r;
        if (!value)
                return CUDA_ERROR_INVALID_VALUE;
        switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
                *value = found->info.bus;
                return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
                *value = found->info.slot;
                return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
                *value = (int)found->info.domain;
                return CUDA_SUCCESS;
#define ATTRIBUTE(name, number)                                                                                        \
        case CU_DEVICE_ATTRIBUTE_##name:                                                                               \
                *value = number;                                                                                       \
                return CUDA_SUCCESS;
#include "sim/cuda/attributes.def"
#undef ATTRIBUTE
        default: /* an attribute without a row is 0 */
                *value = 0;
                return (int)attribute > 0 && (int)attribute < 200 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        }
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
        LOCKED_LIBRARY;
        struct device *found;
        CUresult r = device_enter(device, &found);

        if (r != CUDA_SUCCESS)
                return r;
        if (!text || size < 13)
                return CUDA_ERROR_INVALID_VALUE;
        (void)snprintf(text, (size_t)size, "%04X:%02X:%02X.0", found->info.domain, found->info.bus, found->info.slot);
        return CUDA_SUCCESS;
}
