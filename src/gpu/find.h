/* The devices of this machine, for people: names, memory, UUIDs, and what else NVML knows. NVML is found
 * by dlopen ("libnvidia-ml.so.1"); where it is missing, what the driver's own client says is given. */
#pragma once

#include "gpu/backend.h"

#include "base/text.h"

enum {
        GPU_DEVICES_MAX = 32,
};

struct gpu_device {
        unsigned int index; /* PCI bus order, as nvidia-smi numbers them */
        char name[64];      /* "NVIDIA H200" */
        char uuid[64];      /* "GPU-..."; "" where unknown */
        char bus_id[32];    /* "00000000:18:00.0" */
        uint32_t minor;     /* N of /dev/nvidiaN */
        bytes total;
        bool has_mig; /* MIG mode is on */
        bool is_lost; /* fell off the bus */
        int sms;      /* multiprocessors; -1: unknown */
};

/* *ret_n devices. 0; -ENODEV; -errno. */
int gpu_find(const struct gpu_backend *backend, struct gpu_device ret[static GPU_DEVICES_MAX], unsigned int *ret_n,
             struct err *err);

/* Waits at most `timeout_ms` for an Xid or a lost device (NVML events). 1: *ret_device, *ret_xid; 0: nothing;
 * -ENOTSUP; -errno. Thread: one. */
struct gpu_watch;
int gpu_watch_open(struct gpu_watch **ret);
int gpu_watch_next(struct gpu_watch *watch, int timeout_ms, unsigned int *ret_device, uint64_t *ret_xid);
struct gpu_watch *gpu_watch_close(struct gpu_watch *watch);
