/* SPDX-License-Identifier: Apache-2.0 */
/* The driver as a gate sees it: how it is called, and what it calls a channel. */
#pragma once

#include "rm/call.h"
#include "rm/encode.h"
#include "rm/engines.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The driver, or the simulator: what a gate needs of it. Threads: any, at once. */
struct gate_driver {
        void *context;

        /* What is behind our descriptor; *ret_minor for RM_NODE_DEVICE. */
        enum rm_node (*node)(void *context, int fd, uint32_t *ret_minor);

        /* ioctl(2) with a block, and what it points to, in our memory. 0 or more, or -errno. */
        int (*ioctl)(void *context, int fd, uint32_t request, void *block);

        /* A descriptor of our own: "nvidiactl", "nvidia0", "nvidia-uvm". Or -errno. */
        int (*open)(void *context, const char *node);

        /* Maps what MAP_MEMORY has prepared on the descriptor, to read; munmap(2) ends it. 0; -errno. NULL: cannot. */
        int (*map)(void *context, int fd, size_t size, const void **ret);
};

/* A control, or a free, by our descriptor. The status, or UINT32_MAX: the call failed. */
uint32_t gate_driver_control(const struct gate_driver *driver, int fd, const struct rm_control *control);
uint32_t gate_driver_free(const struct gate_driver *driver, int fd, uint32_t client, uint32_t handle);

/* A channel of the tenant. */
struct gate_channel {
        uint32_t client, handle; /* the driver's */
        uint32_t group;          /* handle, in the same client */
        uint32_t cid;            /* what the driver numbers it */
        unsigned int device;     /* index into the lease */
        bool is_compute;         /* its group may use the graphics and compute engine: gate/state/channels.h */
        enum rm_engine engine;   /* that an object was made in it for; NONE: none, or not known yet */
        uint32_t order;          /* counts channels ever made */
};
