/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How libcuda starts: its calls to the driver for the process, for a device and for a context, in the
 * recorded order (start_device.def, start_context.def, end_context.def).
 *
 * The tables name objects by the number that their handle had in the recording. The first device
 * and the first context of a process get exactly these handles; further ones the next free stretch.
 */
#pragma once

#include "sim/cuda/driver/nv.h"

#include <stdbool.h>
#include <stdint.h>

enum {
        START_CONTEXT = 0x0e, /* numbers below are the device's */
        START_END = 0x96,     /* numbers from here are the program's */
        START_CHANNELS = 20,  /* 8 for compute, then three times 4 for copies */
        START_COMPUTE = 8,
        START_GROUPS = 7,
};

enum start_node {
        NODE_MAIN, /* for ALLOC_MEMORY */
        NODE_SUBDEVICE,
        NODE_EVENT,
        N_NODES,
};

/* One object that was made, and what must be undone. */
struct piece {
        bool is_made, is_mapped;
        uint8_t parent;
        int fd, copy; /* of an event; 0: none */
        uint64_t base, size;
        uint64_t linear; /* of our mapping; 0: none */
        uint8_t view;    /* the parent object of our mapping */
        void *at;
};

struct start_device {
        struct nv *nv;
        uint32_t minor, gpu_id, instance;
        uint32_t first; /* number of handle 2 */
        int node[N_NODES];
        struct piece piece[START_CONTEXT];
        uint64_t group;
        unsigned int n_contexts;
        bool has_vaspace;   /* registered with UVM */
        bool keeps_vaspace; /* a pool lives in it: it outlives the contexts */
        bool has_pool_memory;

        /* Learned on the way. */
        uint8_t uuid[16];
        char name[64];
        uint64_t total; /* bytes of the heap */
        uint32_t architecture;
        bool has_fabric; /* one is up */
};

/* When a context ends, its owner has things to free in between. */
enum start_end {
        START_END_STREAMS,   /* range groups of streams */
        START_END_LEFTOVERS, /* memory that the program did not free */
};

struct start_context {
        struct start_device *device;
        uint32_t first; /* number of handle 0x0e */
        struct piece piece[START_END];
        uint64_t low, far, near, errors; /* reserved stretches */
        uint64_t group[START_GROUPS];
        uint32_t channel[START_CHANNELS]; /* handles */
        bool has_parallelism, has_semaphores;
        void (*on_end)(struct start_context *context, enum start_end what); /* may be NULL */
};

/* The devices of the machine. */
struct start_process {
        struct nv_device_info devices[NV_DEVICES]; /* all of them */
        uint32_t n_devices;
        uint32_t probed[NV_DEVICES]; /* ids of those that the process may use */
        uint32_t n_probed;
};

/* nvidiactl, the client, nvidia-uvm. A status of nv.h. */
uint32_t start_process(struct nv *nv, struct start_process *ret);

/* A device: device->nv, minor and gpu_id are set. On failure nothing is left. */
uint32_t start_device(struct start_device *device);
void start_device_end(struct start_device *device);

/* A context: context->device is set. On failure nothing is left. */
uint32_t start_context(struct start_context *context);
void start_context_end(struct start_context *context);

/* The handle of object n of the tables. context may be NULL for n < START_CONTEXT. */
uint32_t start_handle(const struct start_device *device, const struct start_context *context, uint32_t n);

enum {
        OBJECT_DEVICE = 0x02,
        OBJECT_SUBDEVICE = 0x03,
        OBJECT_VASPACE = 0x09,
        OBJECT_P2P = 0x0d,
        OBJECT_GROUP = 0x15,
        OBJECT_SEMAPHORES = 0x1f, /* host memory: the device writes there what is done */
        LOW_SIZE = 0x8000000,
        LOW_POOLS = 0x5400000, /* in the stretch LOW: the host memory of the first pool */
};
