/* Existing MIG instances, as NVML tells them. What nvml.def has is needed; these calls came later and may be missing. */
#include "gpu/find.h"

#include "gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Source: nvml.h of driver 450 and later; the layout of the instances is never changed here. */
struct mig_calls {
        nvmlReturn_t (*max)(nvmlDevice_t, unsigned int *);
        nvmlReturn_t (*handle)(nvmlDevice_t, unsigned int, nvmlDevice_t *);
        nvmlReturn_t (*uuid)(nvmlDevice_t, char *, unsigned int);
        nvmlReturn_t (*gpu)(nvmlDevice_t, unsigned int *);
        nvmlReturn_t (*compute)(nvmlDevice_t, unsigned int *);
        nvmlReturn_t (*memory)(nvmlDevice_t, nvmlMemory_t *);
};

static int find_calls(void *library, struct mig_calls *ret)
{
        static const struct {
                const char *name;
                size_t at;
        } calls[] = {
                { "nvmlDeviceGetMaxMigDeviceCount", offsetof(struct mig_calls, max) },
                { "nvmlDeviceGetMigDeviceHandleByIndex", offsetof(struct mig_calls, handle) },
                { "nvmlDeviceGetUUID", offsetof(struct mig_calls, uuid) },
                { "nvmlDeviceGetGpuInstanceId", offsetof(struct mig_calls, gpu) },
                { "nvmlDeviceGetComputeInstanceId", offsetof(struct mig_calls, compute) },
                { "nvmlDeviceGetMemoryInfo", offsetof(struct mig_calls, memory) },
        };

        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                void *address = dlsym(library, calls[i].name);

                if (!address)
                        return -ENOTSUP;
                memcpy((char *)ret + calls[i].at, &address, sizeof(address));
        }
        return 0;
}

static bool instance_read(const struct mig_calls *calls, nvmlDevice_t handle, struct gpu_instance *ret)
{
        struct gpu_instance found = { .gpu = 0 };
        nvmlMemory_t memory;

        if (calls->uuid(handle, found.uuid, sizeof(found.uuid)) != NVML_SUCCESS ||
            calls->gpu(handle, &found.gpu) != NVML_SUCCESS || calls->compute(handle, &found.compute) != NVML_SUCCESS ||
            calls->memory(handle, &memory) != NVML_SUCCESS)
                return false;
        found.memory = memory.total;
        *ret = found;
        return true;
}

static unsigned int instances_read(const struct nvml_calls *nvml, const struct mig_calls *calls, const char *uuid,
                                   bool *ret_is_on, struct gpu_instance *ret)
{
        unsigned int mode, pending, most = 0, n = 0;
        nvmlDevice_t device, handle;

        *ret_is_on = nvml->DeviceGetHandleByUUID(uuid, &device) == NVML_SUCCESS &&
                     nvml->DeviceGetMigMode(device, &mode, &pending) == NVML_SUCCESS && mode == NVML_DEVICE_MIG_ENABLE;
        if (!*ret_is_on || calls->max(device, &most) != NVML_SUCCESS)
                return 0;
        for (unsigned int i = 0; i < most && n < GPU_INSTANCES_MAX; i++) /* places may be empty in between */
                if (calls->handle(device, i, &handle) == NVML_SUCCESS && instance_read(calls, handle, &ret[n]))
                        n++;
        return n;
}

int gpu_instances(const char *uuid, bool *ret_is_on, struct gpu_instance ret[static GPU_INSTANCES_MAX],
                  unsigned int *ret_n)
{
        struct mig_calls calls;
        struct nvml_calls nvml;
        int r = nvml_open(&nvml);

        if (r < 0)
                return r;
        r = find_calls(nvml.library, &calls);
        if (r == 0)
                *ret_n = instances_read(&nvml, &calls, uuid, ret_is_on, ret);
        nvml_close(&nvml);
        return r;
}
