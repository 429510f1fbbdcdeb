/*
 * Inside the room: a client of the driver at one device, and the calls that control, meter and find are made of.
 *
 * A status is the driver's; a call that fails itself is a negative errno.
 */
#pragma once

#include "gpu/control.h"
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
};

/* A client without a device, and the devices of the machine: n of them. */
int client_open(struct gpu_client *client, const struct gpu_backend *backend);
int client_devices(struct gpu_client *client, struct rm_device ret[static RM_DEVICES_MAX], size_t *ret_n);
/* Goes to the device: opens its node, makes device and subdevice. -ENODEV: it is lost. */
int client_attach(struct gpu_client *client, const struct rm_device *info);
void client_done(struct gpu_client *client); /* closes; the driver frees the rest */

/* 0 with the new handle; -ENODEV: lost; -ENOTSUP: refused, or not known there; -errno. */
int client_alloc(struct gpu_client *client, uint32_t parent, uint32_t class_number, void *params, uint32_t params_size,
                 uint32_t *ret_object);
/* The driver's status, or -errno. */
int64_t client_control(struct gpu_client *client, uint32_t object, uint32_t cmd, void *params, uint32_t size);
void client_free(struct gpu_client *client, uint32_t object);

/* Maps a memory object of `size` bytes, to read. 0; -errno. */
int client_map(struct gpu_client *client, uint32_t object, size_t size, const void **ret);

/* What a status means for a caller: 0; -ENODEV; -EPERM; -ENOTSUP; -EIO. */
int client_error(int64_t status);
