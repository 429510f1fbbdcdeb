/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: an Xid wakes the waiting program. The driver makes a node readable (ALLOC_OS_EVENT), and EVENT_DATA fetches
 * the event.
 */
#include "sim/nvml/state.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <poll.h>
#include <stdlib.h>

enum {
        EVENT_SIZE = 16, /* NvUnixEvent */
        INFO_AT = 8,
};

struct nvmlEventSet_st {
        int fds[NV_DEVICES]; /* one per device that is watched; -1: it is not */
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
        LOCKED_NVML;
        nvmlReturn_t r = nvml_check();

        if (r != NVML_SUCCESS)
                return r;
        if (!set)
                return NVML_ERROR_INVALID_ARGUMENT;
        *set = malloc(sizeof(**set));
        if (!*set)
                return NVML_ERROR_MEMORY;
        for (size_t i = 0; i < NV_DEVICES; i++)
                (*set)->fds[i] = -1;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
        LOCKED_NVML;
        _cleanup_(closep) int fd = -1;
        uint8_t block[16] = { 0 };
        nvmlReturn_t r = nvml_enter(device);

        if (r != NVML_SUCCESS)
                return r;
        if (!set || types & ~(unsigned long long)nvmlEventTypeXidCriticalError)
                return set ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
        if (set->fds[device->index] >= 0)
                return NVML_SUCCESS;
        fd = nv_device_open(&nvml.nv, device->info.minor);
        if (fd < 0)
                return NVML_ERROR_GPU_IS_LOST;
        rm_put32(block, sizeof(block), 0, nvml.nv.client);
        rm_put32(block, sizeof(block), 4, device->device);
        rm_put32(block, sizeof(block), 8, (uint32_t)fd);
        r = nvml_result(nv_ioctl(fd, RM_NR_ALLOC_EVENT, block, sizeof(block), 12));
        if (r == NVML_SUCCESS)
                set->fds[device->index] = TAKE_FD(fd);
        return r;
}

/* {pointer@0 more@8 status@12} */
static bool take_event(int fd, uint32_t *ret_info)
{
        uint8_t event[EVENT_SIZE] = { 0 }, block[16] = { 0 };

        rm_put64(block, sizeof(block), 0, (uintptr_t)event);
        if (nv_ioctl(fd, RM_NR_EVENT_DATA, block, sizeof(block), 12) != RM_STATUS_OK)
                return false;
        *ret_info = rm_get32(event, sizeof(event), INFO_AT);
        return true;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
        struct pollfd polls[NV_DEVICES];
        uint32_t info;

        if (!set || !data)
                return NVML_ERROR_INVALID_ARGUMENT;
        for (size_t i = 0; i < NV_DEVICES; i++)
                polls[i] = (struct pollfd){ .fd = set->fds[i], .events = POLLIN };
        if (poll(polls, NV_DEVICES, (int)timeout_ms) <= 0)
                return NVML_ERROR_TIMEOUT;
        for (size_t i = 0; i < NV_DEVICES; i++) {
                if (polls[i].revents & POLLHUP)
                        return NVML_ERROR_UNKNOWN; /* the machine has ended */
                if (!polls[i].revents || !take_event(polls[i].fd, &info))
                        continue;
                *data = (nvmlEventData_t){ .device = &nvml.device[i],
                                           .eventType = (unsigned long long)nvmlEventTypeXidCriticalError,
                                           .eventData = info,
                                           .gpuInstanceId = UINT32_MAX,
                                           .computeInstanceId = UINT32_MAX };
                return NVML_SUCCESS;
        }
        return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
        if (!set)
                return NVML_ERROR_INVALID_ARGUMENT;
        for (size_t i = 0; i < NV_DEVICES; i++)
                closep(&set->fds[i]);
        free(set);
        return NVML_SUCCESS;
}
