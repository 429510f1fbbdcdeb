/* SPDX-License-Identifier: Apache-2.0 */
/* Existing MIG instances, by NVML. The calls of nvml.def are required; these are newer and may be missing. */
#include "gpu/find.h"

#include "gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Source: nvml.h of driver 450 and later; the layout of the instances is never changed here. */
#define MIG_CALLS(CALL)                                                                                                \
        CALL(max, "nvmlDeviceGetMaxMigDeviceCount", nvmlDevice_t, unsigned int *)                                      \
        CALL(handle, "nvmlDeviceGetMigDeviceHandleByIndex", nvmlDevice_t, unsigned int, nvmlDevice_t *)                \
        CALL(uuid, "nvmlDeviceGetUUID", nvmlDevice_t, char *, unsigned int)                                            \
        CALL(gpu, "nvmlDeviceGetGpuInstanceId", nvmlDevice_t, unsigned int *)                                          \
        CALL(compute, "nvmlDeviceGetComputeInstanceId", nvmlDevice_t, unsigned int *)                                  \
        CALL(memory, "nvmlDeviceGetMemoryInfo", nvmlDevice_t, nvmlMemory_t *)

struct mig_calls {
#define MEMBER(name, symbol, ...) nvmlReturn_t (*name)(__VA_ARGS__);
        MIG_CALLS(MEMBER)
#undef MEMBER
};

static int find_calls(void *library, struct mig_calls *ret)
{
        void *address;

#define FIND(name, symbol, ...)                                                                                        \
        address = dlsym(library, symbol);                                                                              \
        if (!address)                                                                                                  \
                return -ENOTSUP;                                                                                       \
        memcpy(&ret->name, &address, sizeof(address));
        MIG_CALLS(FIND)
#undef FIND
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
        for (unsigned int i = 0; i < most && n < GPU_INSTANCES_MAX; i++) /* indices may be unused in between */
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
