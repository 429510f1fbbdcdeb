/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container of a trust group is given, so that its programs are clients of the group's MPS server: the directory
 * of the server's pipe, and the files in which both meet. The server has the latter in a mount namespace of its own
 * (shim/mps_program.h), so that those of two groups never meet, and no process of the machine is among them.
 *
 * Both are mounted by the hook, when the runtime has made the container's namespaces and before it starts its program:
 *
 *      /tmp/nvidia-mps   the pipe, not writable: where libcuda looks for it without a variable (580.159.04)
 *      /dev/shm          the files, in place of the container's own
 *
 * Other groups' pipes are not in the container, so no name leads there.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct err;

#define SIDE_PIPE "tmp/nvidia-mps"
#define SIDE_SHARED "dev/shm"

/* As the daemon says it (mps_for_container). The text is borrowed. */
struct side_server {
        pid_t control; /* a process with the server's mounts */
        uint64_t begun;
        const char *pipe;
};

/*
 * Mounts both into the container of that first process, whose root is at `root` there: a path, or one relative to
 * `bundle`. Links in the container lead nowhere else. Afterwards this process is in the container's mount namespace:
 * for a program that ends soon. One thread. 0; -errno.
 */
int side_mount(const struct side_server *server, pid_t container, const char *bundle, const char *root,
               struct err *err);
