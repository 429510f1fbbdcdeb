/*
 * The driver of this machine, real or simulated, behind one interface.
 *
 * Threads: the functions of a backend may be called from any, at once.
 */
#pragma once

#include "rm/call.h"

#include <stdbool.h>

struct err;

struct gpu_backend {
        const char *name; /* "driver", "sim" */
        struct rm_layout layout;
        char release[32]; /* "580.159.04" */
        void *context;

        /* What is behind a descriptor of ours; *ret_minor for RM_NODE_DEVICE. */
        enum rm_node (*node)(void *context, int fd, uint32_t *ret_minor);

        /* ioctl(2); block and what it points to in our memory. 0 or more, or -errno. */
        int (*ioctl)(void *context, int fd, uint32_t request, void *block);

        /* A descriptor of a node: "nvidiactl", "nvidia0", "nvidia-uvm". Or -errno. */
        int (*open)(void *context, const char *node);

        /* Maps what MAP_MEMORY has prepared on the descriptor, to read; munmap(2) ends it. 0; -errno. */
        int (*map)(void *context, int fd, size_t size, const void **ret);
};

/* The simulated machine that SUBLET_SIM names, else this machine's driver. 0; -ENODEV: neither;
 * -ENOTSUP: a release whose ABI is not known. */
int gpu_backend_find(struct gpu_backend *ret, struct err *err);

/* Either of them alone. */
int gpu_driver_open(struct gpu_backend *ret, struct err *err);
int gpu_sim_open(struct gpu_backend *ret, struct err *err);

/* The release of a version file, and its layout. */
int gpu_release_read(const char *path, struct gpu_backend *ret, struct err *err);
