/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver takes of a device for an object without being asked, measured on the device: what its figure of free
 * memory says before and after. Only on a device that nobody else uses; a figure that moves by itself ends it.
 *
 * The objects are made as libcuda makes them (docs/rm-abi.md §2; the order and the fields of its recorded traces,
 * release 580.159.04), two rounds of them, and freed. Takes some 100 MiB of the device for a moment.
 */
#pragma once

#include "gpu/backend.h"

#include "base/text.h"

struct err;

enum gpu_own_kind {
        GPU_OWN_GROUP, /* of the graphics engine */
        GPU_OWN_CHANNEL,
        GPU_OWN_SPACE,  /* of addresses */
        GPU_OWN_CLIENT, /* with its device and subdevice objects */
        GPU_OWN_N,
};

struct gpu_own {
        struct {
                bool is_known; /* false: the driver refused to make one as we make it */
                bytes size;    /* the most that one of them took */
        } of[GPU_OWN_N];
        uint32_t architecture;
        char name[64];
};

/* device: PCI bus order. Blocks, about a second. 0; -EBUSY: others use it, and nothing is known; -errno. */
int gpu_own_measure(const struct gpu_backend *backend, unsigned int device, struct gpu_own *ret, struct err *err);
