/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Xids, by NVML's events. A device without event support (old boards, some virtual ones) is not watched. A lost device
 * is reported once, as Xid 79 ("GPU has fallen off the bus").
 */
#include "gpu/find.h"

#include "gpu/nvml.h"

#include <errno.h>
#include <stdlib.h>

enum {
        XID_LOST = 79,
};

struct gpu_watch {
        struct nvml_calls nvml;
        nvmlEventSet_t set;
        bool is_lost_reported[GPU_DEVICES_MAX];
};

static unsigned int register_all(struct gpu_watch *watch)
{
        unsigned int n = 0, n_watched = 0;
        nvmlDevice_t device;

        if (watch->nvml.DeviceGetCount_v2(&n) != NVML_SUCCESS)
                return 0;
        for (unsigned int i = 0; i < n && i < GPU_DEVICES_MAX; i++)
                n_watched += watch->nvml.DeviceGetHandleByIndex_v2(i, &device) == NVML_SUCCESS &&
                             watch->nvml.DeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, watch->set) ==
                                     NVML_SUCCESS;
        return n_watched;
}

int gpu_watch_open(struct gpu_watch **ret)
{
        struct gpu_watch *watch = calloc(1, sizeof(*watch));

        if (!watch)
                return -ENOMEM;
        if (nvml_open(&watch->nvml) < 0 || watch->nvml.EventSetCreate(&watch->set) != NVML_SUCCESS ||
            !register_all(watch)) {
                (void)gpu_watch_close(watch);
                return -ENOTSUP;
        }
        *ret = watch;
        return 0;
}

/* NVML does not say which device is lost, so each is asked. */
static int find_lost(struct gpu_watch *watch, unsigned int *ret_device)
{
        unsigned int n = 0;
        nvmlDevice_t device;

        (void)watch->nvml.DeviceGetCount_v2(&n);
        for (unsigned int i = 0; i < n && i < GPU_DEVICES_MAX; i++) {
                unsigned int index;
                nvmlReturn_t r = watch->nvml.DeviceGetHandleByIndex_v2(i, &device);

                if (r == NVML_SUCCESS)
                        r = watch->nvml.DeviceGetIndex(device, &index);
                if (r != NVML_ERROR_GPU_IS_LOST || watch->is_lost_reported[i])
                        continue;
                watch->is_lost_reported[i] = true;
                *ret_device = i;
                return 1;
        }
        return -EIO;
}

int gpu_watch_next(struct gpu_watch *watch, int timeout_ms, unsigned int *ret_device, uint64_t *ret_xid)
{
        nvmlEventData_t data = { 0 };
        unsigned int index;

        switch (watch->nvml.EventSetWait_v2(watch->set, &data, timeout_ms < 0 ? 0 : (unsigned int)timeout_ms)) {
        case NVML_SUCCESS:
                if (watch->nvml.DeviceGetIndex(data.device, &index) != NVML_SUCCESS)
                        return -EIO;
                *ret_device = index;
                *ret_xid = data.eventData;
                if (index < GPU_DEVICES_MAX && data.eventData == XID_LOST)
                        watch->is_lost_reported[index] = true;
                return 1;
        case NVML_ERROR_TIMEOUT:
                return 0;
        case NVML_ERROR_GPU_IS_LOST:
                *ret_xid = XID_LOST;
                return find_lost(watch, ret_device);
        default:
                return -EIO;
        }
}

struct gpu_watch *gpu_watch_close(struct gpu_watch *watch)
{
        if (!watch)
                return NULL;
        if (watch->set)
                (void)watch->nvml.EventSetFree(watch->set);
        nvml_close(&watch->nvml);
        free(watch);
        return NULL;
}
