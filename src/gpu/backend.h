/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of this machine, real or simulated, behind one interface.
 *
 * Threads: a backend's functions may be called from any, at the same time.
 */
#pragma once

#include "rm/call.h"

#include <stdbool.h>

struct err;

enum {
        GPU_MACHINE = 32,
};

struct gpu_backend {
        const char *name; /* "driver", "sim" */
        struct rm_layout layout;
        char release[32]; /* "580.159.04" */
        void *context;

        /* The kind of node behind a descriptor of this process; *ret_minor is set for RM_NODE_DEVICE. */
        enum rm_node (*node)(void *context, int fd, uint32_t *ret_minor);

        /* ioctl(2); the block and what it points to are in this process's memory. 0 or more; -errno. */
        int (*ioctl)(void *context, int fd, uint32_t request, void *block);

        /* Opens a node: "nvidiactl", "nvidia0", "nvidia-uvm". A descriptor, the caller's; -errno. */
        int (*open)(void *context, const char *node);

        /* Maps read-only what MAP_MEMORY has prepared on the descriptor; munmap(2) ends it. 0; -errno. */
        int (*map)(void *context, int fd, size_t size, const void **ret);

        /* The same with the protection PROT_READ and PROT_WRITE, or one of them. */
        int (*map_as)(void *context, int fd, size_t size, int protection, void **ret);
};

/* The simulated machine that SUBLET_SIM names, else this machine's driver. 0; -ENODEV: neither;
 * -ENOTSUP: a release whose ABI is not known. */
int gpu_backend_find(struct gpu_backend *ret, struct err *err);

/* Which machine that is: "" is this one, else the id of a simulated one, another each time it starts; "?": one that
 * does not say. */
void gpu_machine(char ret[static GPU_MACHINE]);

/* For the one that serves this machine's devices: a lock that lasts as long as the returned descriptor is open,
 * whatever directory that daemon has. The descriptor; -EBUSY: somebody has it; -errno. */
int gpu_serve_lock(struct err *err);

/* Either of them alone. */
int gpu_driver_open(struct gpu_backend *ret, struct err *err);
int gpu_sim_open(struct gpu_backend *ret, struct err *err);

/* Reads a release from a version file, and its layout. 0; -ENOTSUP: not a known release; -errno. */
int gpu_release_read(const char *path, struct gpu_backend *ret, struct err *err);
