/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's devices, for people: names, memory, UUIDs, and what NVML knows. NVML is found by dlopen
 * ("libnvidia-ml.so.1"); without it, only the facts of the driver's own client are given. */
#pragma once

#include "gpu/backend.h"

#include "base/text.h"

#include <sys/types.h>

enum {
        GPU_DEVICES_MAX = 32,
        GPU_INSTANCES_MAX = 16, /* of a device in MIG mode: an H200 has at most 7 */
};

struct gpu_device {
        unsigned int index; /* PCI bus order, as nvidia-smi numbers them */
        char name[64];      /* "NVIDIA H200" */
        char uuid[64];      /* "GPU-..."; "" where unknown */
        char bus_id[32];    /* "00000000:18:00.0" */
        uint32_t minor;     /* N of /dev/nvidiaN */
        bytes total;
        bool has_nvml;   /* NVML was asked for what follows */
        bool can_mig;    /* it has a MIG mode */
        bool has_mig;    /* MIG mode is on */
        bool is_lost;    /* fell off the bus */
        int sms;         /* multiprocessors; -1: unknown */
        int numa;        /* the NUMA node of its slot, as the kernel says; -1: unknown */
        uint32_t nvlink; /* bit i: NVLink joins it with device i, says NVML; 0 without NVML */
};

/* *ret_n devices. 0; -ENODEV; -errno. */
int gpu_find(const struct gpu_backend *backend, struct gpu_device ret[static GPU_DEVICES_MAX], unsigned int *ret_n,
             struct err *err);

/* A MIG device that the operator has made: what CUDA_VISIBLE_DEVICES can name. */
struct gpu_instance {
        char uuid[64];         /* "MIG-..." */
        uint32_t gpu, compute; /* ids of its GPU instance and of its compute instance in that */
        bytes memory;          /* the GPU instance's: its compute instances share it */
};

/* Whether the device of that UUID is in MIG mode, and its *ret_n instances by NVML; 0 instances without the mode.
 * 0; -ENOTSUP: no NVML, or one too old for MIG. Blocks: initialises NVML unless this process has. */
int gpu_instances(const char *uuid, bool *ret_is_on, struct gpu_instance ret[static GPU_INSTANCES_MAX],
                  unsigned int *ret_n);

/* Processes with a compute context on a device, by NVML; pids of this pid namespace. Threads: one. */
struct gpu_users;
int gpu_users_open(struct gpu_users **ret); /* 0; -ENOTSUP: no NVML */
int gpu_users_list(struct gpu_users *users, const char *uuid, pid_t *ret, size_t n_room, size_t *ret_n); /* 0; -EIO */
/* Of the latest list: what these processes hold; false: NVML does not say of one of them. A process that is not in the
 * list holds nothing. */
bool gpu_users_held(const struct gpu_users *users, const pid_t *processes, size_t n, bytes *ret);
int gpu_users_total(struct gpu_users *users, const char *uuid, bytes *ret_used); /* of the device; 0; -EIO */
struct gpu_users *gpu_users_close(struct gpu_users *users);

/* Waits at most `timeout_ms` for an Xid or a lost device (NVML events). 1: *ret_device, *ret_xid; 0: nothing
 * happened; -ENOTSUP; -errno. Threads: one. */
struct gpu_watch;
int gpu_watch_open(struct gpu_watch **ret);
int gpu_watch_next(struct gpu_watch *watch, int timeout_ms, unsigned int *ret_device, uint64_t *ret_xid);
struct gpu_watch *gpu_watch_close(struct gpu_watch *watch);
