/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's own client at a device: it can switch every tenant's channels.
 *
 * FIFO_DISABLE_CHANNELS names channels by (client, channel) handles, and the driver does not check whose they are
 * (measured, H200, 580.159.04). So no descriptor of a tenant is needed, and one call may name channels of several
 * tenants. Timeslices are set by the shim, which has the tenant's descriptor.
 *
 * Threads: one at a time per struct gpu_client. Blocks: each call takes 0.2 to 0.8 ms, and longer while the driver's
 * locks are held; so never call it on a thread that serves tenants or the API.
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

/* Opens a client at `device` (PCI bus order, as nvidia-smi numbers them). `backend` is borrowed and must outlive it.
 * 0; -ENODEV: no such device, or it is lost; -errno. */
int gpu_client_open(const struct gpu_backend *backend, unsigned int device, struct gpu_client **ret);
struct gpu_client *gpu_client_close(struct gpu_client *client); /* NULL is fine */

/* Disables channels (running work is preempted), or enables them again. Channels that no longer exist are skipped. One
 * that this client disabled several times is enabled by one call here; one that others disabled besides is not.
 * 0; -ENODEV: the device is lost; -EIO with the driver's status in *ret_status (may be NULL). */
int gpu_channels_set(struct gpu_client *client, const struct gpu_channel *channels, size_t n, bool is_disabled,
                     uint32_t *ret_status);

/* Disables channels without preemption: a group stays on the device until its kernel or its slice ends, and does not
 * return. It takes 0.2 to 0.4 ms, and the group that comes on meanwhile is not disturbed (measured, H200, 580.159.04:
 * docs/time.md). Only for compute channels beside others with work: a group that is alone goes on, and copies may not
 * go on after they were enabled again. Results as above. */
int gpu_channels_retire(struct gpu_client *client, const struct gpu_channel *channels, size_t n, uint32_t *ret_status);

/* Others may have disabled them once more than this client knows of: when they are enabled next, the driver is asked
 * once more. Makes no call. */
void gpu_channels_doubt(struct gpu_client *client, const struct gpu_channel *channels, size_t n);

/* They have ended: how often they were disabled is not kept. Makes no call. */
void gpu_channels_forget(struct gpu_client *client, const struct gpu_channel *channels, size_t n);
