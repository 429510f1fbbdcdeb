/* SPDX-License-Identifier: Apache-2.0 */
/* MIG instances of the simulated machine: of device 0, as `sublet sim --mig` made them (server/files.c). */
#include "sim/nvml/state.h"

#include <stdio.h>

const struct nvml_instance *nvml_instance_of(nvmlDevice_t device)
{
        for (unsigned int i = 0; i < nvml.n_instances; i++)
                if (device == &nvml.instance[i].handle)
                        return &nvml.instance[i];
        return NULL;
}

/* Once: handles stay good until the library is shut down. */
static void read_instances(void)
{
        FILE *file = nvml.n_instances ? NULL : fopen("/proc/driver/nvidia/gpus/0000:01:00.0/instances", "re");
        struct nvml_instance *to = nvml.instance;

        while (file && nvml.n_instances < NVML_INSTANCES &&
               fscanf(file, "%u %u %llu %63s", &to->gpu, &to->compute, &to->memory, to->uuid) == 4)
                to = &nvml.instance[++nvml.n_instances];
        if (file)
                (void)fclose(file);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        if (!count)
                return NVML_ERROR_INVALID_ARGUMENT;
        *count = NVML_INSTANCES;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *instance)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        if (!instance || index >= NVML_INSTANCES)
                return NVML_ERROR_INVALID_ARGUMENT;
        read_instances();
        if (device->index != 0 || index >= nvml.n_instances)
                return NVML_ERROR_NOT_FOUND;
        *instance = &nvml.instance[index].handle;
        return NVML_SUCCESS;
}

static nvmlReturn_t id_of(nvmlDevice_t handle, unsigned int *ret, bool is_compute)
{
        LOCKED_NVML;
        const struct nvml_instance *instance = nvml_instance_of(handle);

        if (!instance)
                return NVML_ERROR_NOT_FOUND;
        if (!ret)
                return NVML_ERROR_INVALID_ARGUMENT;
        *ret = is_compute ? instance->compute : instance->gpu;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t instance, unsigned int *id)
{
        return id_of(instance, id, false);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t instance, unsigned int *id)
{
        return id_of(instance, id, true);
}
