/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's MPS control daemon as a program: where its files are, and how it is started. A daemon in a container has the
 * shim spawner start it (spawner.h), which outlives the daemon, from the files of the machine: the program comes with
 * the driver and is in no image. */
#pragma once

#include "shim/mps_server.h"

struct err;

enum {
        MPS_PATH = 160,
};

#define MPS_PROGRAM "nvidia-cuda-mps-control"
#define HOST_ROOT_HELP                                                                                                 \
        "in a container: where the machine's root is, whose " MPS_PROGRAM " is taken" /* of mps_at.root */

/* One of a device: of a group, or of mode spatial. The texts are borrowed. */
struct mps_at {
        const char *dir, *uuid; /* the daemon's directory; the device's UUID, "": not known */
        unsigned int device;
        uint32_t team; /* 0: of mode spatial */
        uid_t owner;   /* of a group: nobody else of the machine may connect. Of mode spatial any user may */

        /* Of a group of containers: each has the pipe mounted (oci/side.h), for whatever user it has inside, and no
         * process of the machine but root's finds it. Clients and server meet in files of MPS_SHARED, too: those of
         * such a group have one of their own in its place. */
        bool is_contained;

        const char *root; /* where the machine's root is, if ours is a container's; NULL: ours */
};

#define MPS_SHARED "/dev/shm"

void mps_path(const struct mps_at *at, const char *name, char ret[static MPS_PATH]); /* of a file of its place */
/* Takes away what mps_make_directories and a control daemon that has ended have left. */
void mps_remove_directories(const struct mps_at *at);

int mps_make_directories(const struct mps_at *at, struct err *err); /* 0; -errno */

/* Of a group: nobody but its owner may enter the directory of its pipe, or, of containers, that of its place. In one
 * step: its programs may be about to. 0; -errno. */
int mps_restrict(const struct mps_at *at, struct err *err);

bool mps_is_there(const char *root); /* the program, in our PATH, below that root; NULL: ours */

/* Starts the control daemon (its directories are there), or, `quits`, the program that tells it to end, as a child of
 * ours. 0; -errno. */
int mps_start_here(const struct mps_at *at, bool quits, pid_t *ret, struct err *err);
