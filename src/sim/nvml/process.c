/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes on a device: GET_PIDS for the compute class, GET_PID_INFO for what they hold. Recorded
 * of nvidia-smi --query-compute-apps, which makes no further call if there is no process.
 */
#include "sim/nvml/state.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
        PIDS_SIZE = 3812,
        PIDS_MAX = 950,
        PID_INFO_SIZE = 14408,
        PID_INFO_MAX = 200,
        PID_INFO_ENTRY = 72,
        COMPUTE_CLASS = 0xcbc0,
        COMPUTE_CLASS_MPS = 0x900e,
};

static uint32_t pids_of(nvmlDevice_t device, uint32_t class_number, uint32_t *pids, uint32_t *n)
{
        uint8_t params[PIDS_SIZE] = { 0 };
        uint32_t status, count;

        rm_put32(params, sizeof(params), 4, class_number);
        status = nv_control(&nvml.nv, device->subdevice, RM_GET_PIDS, params, sizeof(params));
        if (status != RM_STATUS_OK)
                return status;
        count = rm_get32(params, sizeof(params), 8);
        for (uint32_t i = 0; i < count && i < PIDS_MAX && *n < PIDS_MAX; i++) {
                uint32_t pid = rm_get32(params, sizeof(params), 12 + 4 * i), k = 0;

                while (k < *n && pids[k] != pid)
                        k++;
                if (k == *n)
                        pids[(*n)++] = pid;
        }
        return status;
}

/* Bytes that each of up to PID_INFO_MAX processes holds. */
static uint32_t processes_memory(nvmlDevice_t device, const uint32_t *pids, uint32_t n, unsigned long long *ret)
{
        static _Thread_local uint8_t params[PID_INFO_SIZE];
        uint32_t status;

        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 0, n);
        for (uint32_t i = 0; i < n; i++)
                rm_put32(params, sizeof(params), 8 + PID_INFO_ENTRY * i, pids[i]);
        status = nv_control(&nvml.nv, device->subdevice, RM_GET_PID_INFO, params, sizeof(params));
        for (uint32_t i = 0; i < n; i++) {
                size_t at = 8 + (size_t)PID_INFO_ENTRY * i;

                ret[i] = rm_get64(params, sizeof(params), at + 16) + rm_get64(params, sizeof(params), at + 24) +
                         rm_get64(params, sizeof(params), at + 32);
        }
        return status;
}

static nvmlReturn_t processes_list(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *processes)
{
        uint32_t pids[PIDS_MAX], n = 0, status;
        nvmlReturn_t r = nvml_enter(device);
        unsigned int room;

        if (r != NVML_SUCCESS)
                return r;
        if (!count || (*count && !processes))
                return NVML_ERROR_INVALID_ARGUMENT;
        status = pids_of(device, COMPUTE_CLASS, pids, &n);
        if (status == RM_STATUS_OK)
                status = pids_of(device, COMPUTE_CLASS_MPS, pids, &n);
        if (status != RM_STATUS_OK)
                return nvml_result(status);

        room = *count;
        *count = n;
        if (n > room)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        for (uint32_t i = 0; i < n; i += PID_INFO_MAX) {
                uint32_t m = n - i < PID_INFO_MAX ? n - i : PID_INFO_MAX;
                unsigned long long bytes[PID_INFO_MAX];

                status = processes_memory(device, pids + i, m, bytes);
                for (uint32_t k = 0; k < m; k++)
                        processes[i + k] = (nvmlProcessInfo_t){
                                .pid = pids[i + k],
                                .usedGpuMemory = status == RM_STATUS_OK ? bytes[k] :
                                                                          (unsigned long long)NVML_VALUE_NOT_AVAILABLE,
                                .gpuInstanceId = UINT32_MAX,
                                .computeInstanceId = UINT32_MAX,
                        };
        }
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *processes)
{
        LOCKED_NVML;

        return processes_list(device, count, processes);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *processes)
{
        LOCKED_NVML;

        return processes_list(device, count, processes);
}

/* There is no graphics. */
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                      nvmlProcessInfo_t *processes)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_enter(device);

        (void)processes;
        if (r != NVML_SUCCESS)
                return r;
        if (!count)
                return NVML_ERROR_INVALID_ARGUMENT;
        *count = 0;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
        _cleanup_(closep) int fd = -1;
        char path[40], text[256] = { 0 };

        (void)snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
                return NVML_ERROR_NOT_FOUND;
        return nvml_put_text(text, name, length);
}
