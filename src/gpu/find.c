/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and sizes come from the driver's own client; NVML is asked by UUID for what only it knows. So a machine without
 * NVML, and the simulator without its libraries, are described too.
 */
#include "gpu/find.h"

#include "base/err.h"
#include "gpu/client.h"
#include "gpu/nvml.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        GET_NAME = 0x20800110, /* flags@0 (1: wide) name[64 or 128 bytes]@4 */
        NAME_SIZE = 132,
        GET_GID = 0x2080014a, /* index@0 flags@4 length@8 data[256]@12 */
        GID_SIZE = 268,
};

static void ask_text(struct gpu_client *client, uint32_t control, uint32_t size, size_t text_at, char ret[static 64])
{
        uint8_t params[GID_SIZE] = { 0 };

        if (client_control(client, client->subdevice, control, params, size) == RM_STATUS_OK)
                (void)snprintf(ret, 64, "%.63s", (const char *)params + text_at);
}

static void ask_memory(struct gpu_client *client, struct gpu_device *device)
{
        uint32_t size = client->backend->layout.fb_info_size;
        uint8_t params[2048] = { 0 };

        rm_put32(params, size, 0, 1);
        rm_put32(params, size, 4, RM_FB_TOTAL_RAM);
        if (client_control(client, client->subdevice, RM_FB_GET_INFO_V2, params, size) == RM_STATUS_OK)
                device->total = (bytes)rm_get32(params, size, 8) * KIB;
}

static int ask_driver(const struct gpu_backend *backend, const struct rm_device *info, struct gpu_device *device)
{
        struct gpu_client client;
        int r = client_open(&client, backend);

        if (r < 0)
                return r;
        r = client_attach(&client, info);
        if (!r) {
                ask_text(&client, GET_NAME, NAME_SIZE, 4, device->name);
                ask_text(&client, GET_GID, GID_SIZE, 12, device->uuid);
                ask_memory(&client, device);
        }
        client_done(&client);
        return r;
}

/* Cores of a multiprocessor, by compute capability. Source: CUDA C++ programming guide, "Arithmetic instructions". */
static unsigned int cores_per_sm(int major, int minor)
{
        return major == 7 || (major == 8 && minor == 0) ? 64 : 128;
}

static void ask_nvml(const struct nvml_calls *nvml, struct gpu_device *device)
{
        unsigned int mode = NVML_DEVICE_MIG_DISABLE, pending, cores;
        int major = 0, minor = 0;
        nvmlDevice_t handle;
        nvmlReturn_t r;

        r = nvml->DeviceGetHandleByUUID(device->uuid, &handle);
        device->is_lost |= r == NVML_ERROR_GPU_IS_LOST;
        if (r != NVML_SUCCESS)
                return;
        device->has_nvml = true;
        device->can_mig = nvml->DeviceGetMigMode(handle, &mode, &pending) == NVML_SUCCESS;
        device->has_mig = device->can_mig && mode == NVML_DEVICE_MIG_ENABLE;
        if (nvml->DeviceGetNumGpuCores(handle, &cores) == NVML_SUCCESS &&
            nvml->DeviceGetCudaComputeCapability(handle, &major, &minor) == NVML_SUCCESS)
                device->sms = (int)(cores / cores_per_sm(major, minor));
}

/* NVML is asked for each pair; a switch between them counts, as every device behind it reaches every other. */
static void ask_links(const struct nvml_calls *nvml, struct gpu_device *devices, size_t n)
{
        nvmlDevice_t handles[GPU_DEVICES_MAX];
        nvmlGpuP2PStatus_t status;

        for (size_t i = 0; i < n; i++) {
                if (nvml->DeviceGetHandleByUUID(devices[i].uuid, &handles[i]) != NVML_SUCCESS)
                        handles[i] = NULL;
                for (size_t k = 0; k < i; k++) {
                        if (!handles[i] || !handles[k] ||
                            nvml->DeviceGetP2PStatus(handles[i], handles[k], NVML_P2P_CAPS_INDEX_NVLINK, &status) !=
                                    NVML_SUCCESS ||
                            status != NVML_P2P_STATUS_OK)
                                continue;
                        devices[i].nvlink |= UINT32_C(1) << k;
                        devices[k].nvlink |= UINT32_C(1) << i;
                }
        }
}

static int devices_of(const struct gpu_backend *backend, struct rm_device devices[static RM_DEVICES_MAX], size_t *ret_n)
{
        struct gpu_client client;
        int r = client_open(&client, backend);

        if (r < 0)
                return r;
        r = client_devices(&client, devices, ret_n);
        client_done(&client);
        return r;
}

static int find_one(const struct gpu_backend *backend, const struct rm_device *info, unsigned int index,
                    struct gpu_device *ret)
{
        struct gpu_device device = { .index = index, .minor = info->minor, .sms = -1 };
        int r;

        (void)snprintf(device.bus_id, sizeof(device.bus_id), "%08X:%02X:%02X.0", info->domain, info->bus, info->slot);
        device.numa = client_numa(info);
        r = ask_driver(backend, info, &device);
        if (r < 0 && r != -ENODEV)
                return r;
        device.is_lost = r == -ENODEV;
        *ret = device;
        return 0;
}

int gpu_find(const struct gpu_backend *backend, struct gpu_device ret[static GPU_DEVICES_MAX], unsigned int *ret_n,
             struct err *err)
{
        struct rm_device devices[RM_DEVICES_MAX];
        struct nvml_calls nvml;
        size_t n = 0;
        int r = devices_of(backend, devices, &n);

        if (r < 0)
                return err_set(err, r, "asking the driver for its devices");
        if (!n)
                return err_say(err, -ENODEV, "the driver has no device ('sublet doctor' looks for the reason)");
        for (size_t i = 0; i < n; i++) {
                r = find_one(backend, &devices[i], (unsigned int)i, &ret[i]);
                if (r < 0)
                        return err_set(err, r, "opening device %zu (/dev/nvidia%u)", i, devices[i].minor);
        }
        if (nvml_open(&nvml) == 0) {
                for (size_t i = 0; i < n; i++)
                        ask_nvml(&nvml, &ret[i]);
                ask_links(&nvml, ret, n);
                nvml_close(&nvml);
        }
        *ret_n = (unsigned int)n;
        return 0;
}
