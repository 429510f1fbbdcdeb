/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's MPS control daemon as a program: where its files are, and how it is started. */
#pragma once

#include "shim/mps_server.h"

struct err;

enum {
        MPS_PATH = 160,
};

#define MPS_PROGRAM "nvidia-cuda-mps-control"

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
};

#define MPS_SHARED "/dev/shm"

void mps_path(const struct mps_at *at, const char *name, char ret[static MPS_PATH]); /* of a file of its place */
/* Takes away what mps_make_directories and a control daemon that has ended have left. */
void mps_remove_directories(const struct mps_at *at);

int mps_make_directories(const struct mps_at *at, struct err *err); /* 0; -errno */

/* Of a group: nobody but its owner may enter the directory of its pipe, or, of containers, that of its place. In one
 * step: its programs may be about to. 0; -errno. */
int mps_restrict(const struct mps_at *at, struct err *err);

bool mps_is_there(void); /* the program, in our PATH */

/* 0; an errno. input: its standard input; -1: none. */
int mps_spawn(const struct mps_at *at, char *const argv[], int input, pid_t *ret);
