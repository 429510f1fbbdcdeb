/*
 * The description of this machine's devices for container engines (CDI 0.5.0, which podman 4.3, containerd 1.7 and all later
 * ones read): nodes, the driver's libraries, and the hook that refuses a container which has no gate. CDI cannot carry a
 * seccomp profile; that is why the hook looks for it.
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

        char sim[MACHINE_PATH]; /* directory of a simulated machine, whose nodes are files in it; "": a real one */
        char preload[MACHINE_PATH], libraries[MACHINE_PATH]; /* of a simulated machine: in the container */
};

/*
 * What there is: of the machine that SUBLET_SIM names, or else of this one. `root` is where the driver's files are ("/", or
 * a mounted driver container's). 0; -ENODEV: no device, or no libcuda, as err says.
 */
int machine_find(const char *root, const char *release, struct machine *ret, struct err *err);

/* The mounts alone, of a driver of that release. */
int machine_libraries(const char *root, const char *release, struct machine *ret, struct err *err);

/* The caller's; NULL: out of memory. `place`: of the hook; NULL: none. */
json_t *cdi_write(const struct machine *machine, const struct spec_paths *paths);
