/*
 * A daemon's own client at a device, and what it may do there to everybody's channels.
 *
 * FIFO_DISABLE_CHANNELS names channels by (client, channel) handles and the driver does not ask whose
 * they are (measured, H200, 580.159.04), so no descriptor of a tenant is needed, and one call may name
 * channels of several tenants. Timeslices are set by the shim, which is at the tenant's descriptor.
 *
 * Threads: one at a time per struct gpu_client. Blocks: each call 0.2 to 0.8 ms, longer while the
 * driver's locks are held: never on a thread that answers tenants or people.
 */
#pragma once

#include "gpu/backend.h"

#include "base/clock.h"

enum {
        GPU_CHANNELS_PER_CALL = 64, /* of FIFO_DISABLE_CHANNELS */
};

struct gpu_client;

struct gpu_channel {
        uint32_t client, handle; /* the driver's handles */
};

/* A client with the device and subdevice of `device` (PCI bus order, as nvidia-smi numbers them).
 * backend is borrowed and outlives it. 0; -errno; -ENODEV: no such device, or it is lost. */
int gpu_client_open(const struct gpu_backend *backend, unsigned int device, struct gpu_client **ret);
struct gpu_client *gpu_client_close(struct gpu_client *client); /* NULL is fine */

/* Keeps the channels off the device (running work is preempted), or lets them on again. Channels that
 * do not exist any more make the driver refuse a whole call: those are then tried one by one.
 * 0; -ENODEV: the device is lost; -EIO with the driver's status in *ret_status (may be NULL). */
int gpu_channels_set(struct gpu_client *client, const struct gpu_channel *channels, size_t n, bool is_disabled,
                     uint32_t *ret_status);
