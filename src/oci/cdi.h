/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of this machine's devices for container engines (CDI 0.5.0, read by podman 4.3, containerd 1.7 and
 * all later ones): nodes, the driver's libraries, and the hook that refuses a container without a gate. CDI cannot
 * carry a seccomp profile, so the hook checks for it.
 *
 * Pure: cdi_write makes JSON of what machine.c has found.
 */
#pragma once

#include "oci/spec.h"

#include <stddef.h>

#define CDI_KIND "sublet.dev/gpu"

enum {
        MACHINE_DEVICES = 32,
        MACHINE_MOUNTS = 32,
        MACHINE_PATH = 512,
};

struct machine {
        struct machine_device {
                unsigned int minor; /* N of /dev/nvidiaN */
                char bus[32], uuid[64];
        } devices[MACHINE_DEVICES]; /* in PCI bus order: the index is nvidia-smi's */
        size_t n_devices;

        struct machine_mount {
                char host[MACHINE_PATH], container[MACHINE_PATH];
        } mounts[MACHINE_MOUNTS];
        size_t n_mounts;

        char sim[MACHINE_PATH]; /* directory of a simulated machine, with its nodes; "": a real machine */
        char preload[MACHINE_PATH], libraries[MACHINE_PATH]; /* of a simulated machine: paths in the container */
};

/*
 * Describes the simulated machine of SUBLET_SIM, else this one. `root` has the driver's files ("/", or the mount of a
 * driver container). 0; -ENODEV: no device or no libcuda; err says which.
 */
int machine_find(const char *root, const char *release, struct machine *ret, struct err *err);

/* Finds only the mounts, of a driver of that release. */
int machine_libraries(const char *root, const char *release, struct machine *ret, struct err *err);

/* The caller's; NULL: out of memory. `paths`: of the hook; NULL: no hook. */
json_t *cdi_write(const struct machine *machine, const struct spec_paths *paths);
