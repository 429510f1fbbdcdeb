/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's facts of the machine and its devices. */
#include "sim/nvml/state.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CUDA_VERSION 13000

enum {
        INFO_PARTITIONS = 0x2a, /* index of GPU_GET_INFO_V2: 0 no, 1 enabled, 2 disabled, 3 and 4 pending */
};

nvmlReturn_t nvml_put_text(const char *text, char *to, unsigned int length)
{
        if (!to)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (strlen(text) >= length)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        strcpy(to, text);
        return NVML_SUCCESS;
}

void nvml_uuid_format(const uint8_t uuid[16], char text[static 41])
{
        char *at = text + sprintf(text, "GPU-");

        for (int i = 0; i < 16; i++)
                at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

const char *nvmlErrorString(nvmlReturn_t result)
{
        switch (result) {
        case NVML_SUCCESS:
                return "Success";
        case NVML_ERROR_UNINITIALIZED:
                return "Uninitialized";
        case NVML_ERROR_INVALID_ARGUMENT:
                return "Invalid Argument";
        case NVML_ERROR_NOT_SUPPORTED:
                return "Not Supported";
        case NVML_ERROR_NO_PERMISSION:
                return "Insufficient Permissions";
        case NVML_ERROR_NOT_FOUND:
                return "Not Found";
        case NVML_ERROR_INSUFFICIENT_SIZE:
                return "Insufficient Size";
        case NVML_ERROR_DRIVER_NOT_LOADED:
                return "Driver Not Loaded";
        case NVML_ERROR_TIMEOUT:
                return "Timeout";
        case NVML_ERROR_GPU_IS_LOST:
                return "GPU is lost";
        case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
                return "Driver/library version mismatch";
        case NVML_ERROR_MEMORY:
                return "Insufficient Memory";
        case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
                return "Argument version mismatch";
        case NVML_ERROR_UNKNOWN:
                break;
        }
        return "Unknown Error";
}

/* ---- the machine --------------------------------------------------------------------------- */

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_check();

        return r == NVML_SUCCESS ? nvml_put_text(nvml.release, version, length) : r;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
        LOCKED_NVML;
        char text[80];
        nvmlReturn_t r = nvml_check();

        if (r != NVML_SUCCESS)
                return r;
        (void)snprintf(text, sizeof(text), "%d.%s", NVML_API_VERSION, nvml.release);
        return nvml_put_text(text, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
        if (!version)
                return NVML_ERROR_INVALID_ARGUMENT;
        *version = CUDA_VERSION;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
        return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_check();

        if (r != NVML_SUCCESS)
                return r;
        if (!count)
                return NVML_ERROR_INVALID_ARGUMENT;
        *count = nvml.n_devices;
        return NVML_SUCCESS;
}

/* ---- which device -------------------------------------------------------------------------- */

static nvmlReturn_t device_handle(unsigned int index, nvmlDevice_t *ret)
{
        nvmlReturn_t r = nvml_enter(&nvml.device[index]);

        if (r == NVML_SUCCESS)
                *ret = &nvml.device[index];
        return r;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_check();

        if (r != NVML_SUCCESS)
                return r;
        if (!device || index >= nvml.n_devices)
                return NVML_ERROR_INVALID_ARGUMENT;
        return device_handle(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_check();
        char text[41];

        if (r != NVML_SUCCESS)
                return r;
        if (!uuid || !device)
                return NVML_ERROR_INVALID_ARGUMENT;
        for (unsigned int i = 0; i < nvml.n_devices; i++) {
                if (nvml_enter(&nvml.device[i]) != NVML_SUCCESS)
                        continue;
                nvml_uuid_format(nvml.device[i].uuid, text);
                if (strcasecmp(text, uuid) == 0)
                        return device_handle(i, device);
        }
        return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_check();
        unsigned int domain, bus, slot;

        if (r != NVML_SUCCESS)
                return r;
        if (!bus_id || !device || sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
                return NVML_ERROR_INVALID_ARGUMENT;
        for (unsigned int i = 0; i < nvml.n_devices; i++) {
                const struct nv_device_info *info = &nvml.device[i].info;

                if (info->domain == domain && info->bus == bus && info->slot == slot)
                        return device_handle(i, device);
        }
        return NVML_ERROR_NOT_FOUND;
}

/* ---- its facts ----------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
        LOCKED_NVML;
        uint8_t params[132] = { 0 };
        nvmlReturn_t r = nvml_enter(device);

        if (r == NVML_SUCCESS)
                r = nvml_result(nv_control(&nvml.nv, device->subdevice, 0x20800110, params, sizeof(params)));
        if (r != NVML_SUCCESS)
                return r;
        params[sizeof(params) - 1] = 0;
        return nvml_put_text((const char *)params + 4, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
        LOCKED_NVML;
        const struct nvml_instance *instance = nvml_instance_of(device);
        char text[41];
        nvmlReturn_t r = instance ? NVML_SUCCESS : nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        if (instance)
                return nvml_put_text(instance->uuid, uuid, length);
        nvml_uuid_format(device->uuid, text);
        return nvml_put_text(text, uuid, length);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        if (!index)
                return NVML_ERROR_INVALID_ARGUMENT;
        *index = device->index;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        if (!minor)
                return NVML_ERROR_INVALID_ARGUMENT;
        *minor = device->info.minor;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
        LOCKED_NVML;
        const struct nv_device_info *info;
        uint8_t params[16] = { 0 };
        nvmlReturn_t r = nvml_enter(device);

        if (r == NVML_SUCCESS)
                r = nvml_result(nv_control(&nvml.nv, device->subdevice, 0x20801801, params, sizeof(params)));
        if (r != NVML_SUCCESS)
                return r;
        if (!pci)
                return NVML_ERROR_INVALID_ARGUMENT;
        info = &device->info;
        *pci = (nvmlPciInfo_t){
                .domain = info->domain,
                .bus = info->bus,
                .device = info->slot,
                .pciDeviceId = rm_get32(params, sizeof(params), 0),
                .pciSubSystemId = rm_get32(params, sizeof(params), 4),
        };
        (void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus,
                       info->slot);
        (void)snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", info->domain, info->bus, info->slot);
        return NVML_SUCCESS;
}

/* Of the simulated model. */
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        if (!major || !minor)
                return NVML_ERROR_INVALID_ARGUMENT;
        *major = 9;
        *minor = 0;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        if (!cores)
                return NVML_ERROR_INVALID_ARGUMENT;
        *cores = 132 * 128;
        return NVML_SUCCESS;
}

/* 1: it has joined the fabric that `sublet sim --nvlink` brings up; all that have reach each other. */
static nvmlReturn_t has_fabric(nvmlDevice_t device, bool *ret)
{
        enum { COMPLETED = 3 };
        uint8_t params[56] = { 0 };
        nvmlReturn_t r = nvml_enter(device);

        if (r == NVML_SUCCESS)
                r = nvml_result(nv_control(&nvml.nv, device->subdevice, 0x208001a3, params, sizeof(params)));
        if (r == NVML_SUCCESS)
                *ret = params[0] == COMPLETED;
        return r;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, nvmlGpuP2PCapsIndex_t index,
                                    nvmlGpuP2PStatus_t *status)
{
        LOCKED_NVML;
        bool one = false, other = false;
        nvmlReturn_t r = has_fabric(device, &one);

        if (r == NVML_SUCCESS)
                r = has_fabric(peer, &other);
        if (r != NVML_SUCCESS)
                return r;
        if (!status || index > NVML_P2P_CAPS_INDEX_ATOMICS)
                return NVML_ERROR_INVALID_ARGUMENT;
        *status = device != peer && one && other ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
        return NVML_SUCCESS;
}

/* The driver keeps a part for itself: total is heap and reserved. In bytes. */
static nvmlReturn_t memory_figures(nvmlDevice_t device, nvmlMemory_v2_t *ret)
{
        static const uint32_t index[] = { RM_FB_HEAP_FREE, RM_FB_TOTAL_RAM, RM_FB_HEAP_SIZE };
        uint32_t kib[ARRAY_SIZE(index)];
        nvmlReturn_t r = nvml_enter(device);

        if (r == NVML_SUCCESS)
                r = nvml_result(nv_fb_info(&nvml.nv, device->subdevice, index, kib, ARRAY_SIZE(index)));
        if (r != NVML_SUCCESS)
                return r;
        *ret = (nvmlMemory_v2_t){
                .free = (unsigned long long)kib[0] << 10,
                .total = (unsigned long long)kib[1] << 10,
                .reserved = kib[1] > kib[2] ? (unsigned long long)(kib[1] - kib[2]) << 10 : 0,
                .used = kib[2] > kib[0] ? (unsigned long long)(kib[2] - kib[0]) << 10 : 0,
        };
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
        LOCKED_NVML;
        const struct nvml_instance *instance = nvml_instance_of(device);
        nvmlMemory_v2_t figures;
        nvmlReturn_t r = NVML_SUCCESS;

        if (instance) /* what is used of an instance is not known */
                figures = (nvmlMemory_v2_t){ .total = instance->memory, .free = instance->memory };
        else
                r = memory_figures(device, &figures);
        if (r != NVML_SUCCESS)
                return r;
        if (!memory)
                return NVML_ERROR_INVALID_ARGUMENT;
        *memory = (nvmlMemory_t){ figures.total, figures.free, figures.total - figures.free };
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
        LOCKED_NVML;
        nvmlMemory_v2_t figures;
        nvmlReturn_t r = memory_figures(device, &figures);

        if (r != NVML_SUCCESS)
                return r;
        if (!memory)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (memory->version != nvmlMemory_v2)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        figures.version = memory->version;
        *memory = figures;
        return NVML_SUCCESS;
}

/* The simulated driver keeps no samples: what it did is in its switch records, not in percent. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        return utilization ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
        LOCKED_NVML;
        uint8_t params[564] = { 0 };
        nvmlReturn_t r = nvml_enter(device);
        uint32_t mode;

        if (r != NVML_SUCCESS)
                return r;
        if (!current || !pending)
                return NVML_ERROR_INVALID_ARGUMENT;
        rm_put32(params, sizeof(params), 0, 1);
        rm_put32(params, sizeof(params), 4, INFO_PARTITIONS);
        r = nvml_result(nv_control(&nvml.nv, device->subdevice, 0x20800102, params, sizeof(params)));
        if (r != NVML_SUCCESS)
                return r;
        mode = rm_get32(params, sizeof(params), 8);
        if (mode == 0)
                return NVML_ERROR_NOT_SUPPORTED;
        *current = mode == 1 || mode == 4;
        *pending = mode == 1 || mode == 3;
        return NVML_SUCCESS;
}
