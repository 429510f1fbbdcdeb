/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to gpu: a driver client at one device, and the calls of which control, meter and find consist.
 *
 * A status is the driver's; a negative value is the errno of a failed ioctl.
 */
#pragma once

#include "gpu/control.h"

#include "base/map.h"
#include "rm/encode.h"

enum {
        GPU_STATUS_IS_LOST = 0x0f, /* nvstatuscodes.h: NV_ERR_GPU_IS_LOST */
};

struct gpu_client {
        const struct gpu_backend *backend;
        int ctl, node; /* -1: not open */
        struct rm_device info;
        uint32_t client, device, subdevice; /* handles */
        uint32_t next;                      /* handle of the next object */
        struct map disables;                /* how often it disabled a channel that it has not enabled since */
        bool is_uncounted;                  /* it may not know of all: what it enables it enables twice */
};

/* Opens a client without a device; and lists the machine's devices. 0; -errno. */
int client_open(struct gpu_client *client, const struct gpu_backend *backend);
int client_devices(struct gpu_client *client, struct rm_device ret[static RM_DEVICES_MAX], size_t *ret_n);
/* The NUMA node of its slot, as the kernel says; -1: it has none, or there is no such slot (the simulator). */
int client_numa(const struct rm_device *info);
/* Opens the device's node and makes its device and subdevice objects. 0; -ENODEV: the device is lost; -errno. */
int client_attach(struct gpu_client *client, const struct rm_device *info);
void client_done(struct gpu_client *client); /* closes; the driver frees the rest */

/* 0 and the new handle; -ENODEV: the device is lost; -ENOTSUP: refused, or unknown to the driver; -errno. */
int client_alloc(struct gpu_client *client, uint32_t parent, uint32_t class_number, void *params, uint32_t params_size,
                 uint32_t *ret_object);
/* The driver's status, or -errno. */
int64_t client_control(struct gpu_client *client, uint32_t object, uint32_t cmd, void *params, uint32_t size);
void client_free(struct gpu_client *client, uint32_t object);

/* Maps a memory object of `size` bytes read-only. 0; -errno. */
int client_map(struct gpu_client *client, uint32_t object, size_t size, const void **ret);

/* A status as an errno: 0; -ENODEV; -EPERM; -ENOTSUP; -EIO. */
int client_error(int64_t status);
