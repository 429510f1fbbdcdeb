/* SPDX-License-Identifier: Apache-2.0 */
/* The processes with a compute context on a device, by NVML. */
#include "gpu/find.h"

#include "gpu/nvml.h"

#include <errno.h>
#include <stdlib.h>

enum {
        USERS_MAX = 1024, /* of a device; the driver lists at most 950 */
};

struct gpu_users {
        struct nvml_calls nvml;
        nvmlProcessInfo_t list[USERS_MAX];
        size_t n;
};

int gpu_users_open(struct gpu_users **ret)
{
        struct gpu_users *users = calloc(1, sizeof(*users));

        if (!users)
                return -ENOMEM;
        if (nvml_open(&users->nvml) < 0) {
                free(users);
                return -ENOTSUP;
        }
        *ret = users;
        return 0;
}

int gpu_users_list(struct gpu_users *users, const char *uuid, pid_t *ret, size_t n_room, size_t *ret_n)
{
        unsigned int n = USERS_MAX;
        nvmlDevice_t device;

        if (users->nvml.DeviceGetHandleByUUID(uuid, &device) != NVML_SUCCESS ||
            users->nvml.DeviceGetComputeRunningProcesses_v3(device, &n, users->list) != NVML_SUCCESS)
                return -EIO;
        users->n = n;
        *ret_n = n < n_room ? n : n_room;
        for (size_t i = 0; i < *ret_n; i++)
                ret[i] = (pid_t)users->list[i].pid;
        return 0;
}

bool gpu_users_held(const struct gpu_users *users, const pid_t *processes, size_t n, bytes *ret)
{
        bytes sum = 0;

        for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < users->n; j++) {
                        if ((pid_t)users->list[j].pid != processes[i])
                                continue;
                        if (users->list[j].usedGpuMemory == UINT64_MAX) /* not available */
                                return false;
                        sum += users->list[j].usedGpuMemory;
                }
        *ret = sum;
        return true;
}

int gpu_users_total(struct gpu_users *users, const char *uuid, bytes *ret_used)
{
        nvmlDevice_t device;
        nvmlMemory_t memory;

        if (users->nvml.DeviceGetHandleByUUID(uuid, &device) != NVML_SUCCESS ||
            users->nvml.DeviceGetMemoryInfo(device, &memory) != NVML_SUCCESS)
                return -EIO;
        *ret_used = memory.used;
        return 0;
}

struct gpu_users *gpu_users_close(struct gpu_users *users)
{
        if (!users)
                return NULL;
        nvml_close(&users->nvml);
        free(users);
        return NULL;
}
