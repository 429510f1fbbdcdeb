/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gate asks the driver for itself, through a client of its own.
 *
 * "Is that client still there?" has no query. A dup of an object that cannot exist answers it: the driver looks for
 * the source client first (0x33 if there is none), then for the object (0x57).
 * Source: open-gpu-kernel-modules rs_server.c serverCopyResource, 525.147.05 to 595.45.04.
 */
#pragma once

#include "lease/lease.h"
#include "rm/layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gate_driver;

struct probe {
        const struct gate_driver *driver;
        const struct rm_layout *layout;
        int ctl;         /* our descriptor; -1: not opened */
        uint32_t client; /* ours */
        uint32_t n_dups; /* ever made: the next one's handle */
        struct {
                int fd;
                uint32_t device, subdevice; /* 0: not made */
                uint32_t minor;
        } devices[LEASE_DEVICES_MAX];
};

/* 0; -errno. */
int probe_init(struct probe *probe, const struct gate_driver *driver, const struct rm_layout *layout);
void probe_done(struct probe *probe);

/* Whether the driver knows the client, anybody's. True when in doubt. */
bool probe_client(struct probe *probe, uint32_t client);

/* Whether the driver has the number in its list of events (state/listens.h); if not, it is there for a moment. True
 * when in doubt. */
bool probe_listens(struct probe *probe, uint32_t client, uint32_t number);
void probe_unlisten(struct probe *probe, uint32_t client, uint32_t number); /* it is there no more, whose ever it was */

/* Fills the lease's table of devices: instance, gpu_id, minor, total; by PCI bus order. Opens each device once, which
 * initialises it. 0; -errno. */
int probe_devices(struct probe *probe, struct lease *lease);

/* Opens the devices that the lease grants, and keeps them open: RM gives a client a device only if the calling
 * process has the device's node open (nv_is_gpu_accessible, nv.c, 525 to 595). So a device that is not granted is out
 * of the tenant's reach by RM's own word. 0; -errno. */
int probe_open_granted(struct probe *probe, const struct lease *lease);

/* Memory that clients of `process` hold on the device, as the driver counts it. 0; -errno. */
int probe_figure(struct probe *probe, const struct lease *lease, unsigned int device, pid_t process, bytes *ret);

enum {
        PROBE_CHANNELS = 64, /* of one DISABLE_CHANNELS */
};

struct probe_channel {
        uint32_t client, handle;
};

/* Disables or enables channels, at most PROBE_CHANNELS. 0, also if some do not exist any more; -EIO: refused;
 * -errno. */
int probe_channels_set(struct probe *probe, unsigned int device, const struct probe_channel *channels, size_t n,
                       bool is_disabled);

/* A second handle, of ours, of a memory of a client that this process has made; 0: the driver refuses. One thread. */
uint32_t probe_dup(struct probe *probe, unsigned int device, uint32_t client, uint32_t object);
void probe_drop(struct probe *probe, uint32_t handle);

/* Maps a part of it, to read; munmap(2) ends it. offset and size are whole pages. 0; -errno. */
int probe_map(struct probe *probe, unsigned int device, uint32_t handle, uint64_t offset, size_t size,
              const void **ret);
