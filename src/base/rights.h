/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with descriptors (SCM_RIGHTS) over Unix sockets.
 *
 * What a message brings is taken whole, since the kernel closes what does not fit in the thread that receives, and a
 * close may wait (descriptors.h). Both continue after a signal. Threads: any. libc only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
        RIGHTS_MAX = 4,   /* descriptors of a message, as they are sent and kept */
        RIGHTS_ALL = 253, /* as many as a hostile message may bring: SCM_MAX_FD of the kernel */
};

struct rights {
        int fds[RIGHTS_MAX]; /* the caller's; -1 from n on */
        size_t n;
        struct ucred sender; /* where SO_PASSCRED is set; else zeros */
        int flags;           /* MSG_TRUNC; MSG_CTRUNC: more descriptors came than wanted, and were dropped */
};

/* flags: as of sendmsg(2). The descriptors stay the caller's; n_fds may be 0. The bytes sent; -errno. */
ssize_t rights_send(int socket, struct iovec *parts, size_t n_parts, const int *fds, size_t n_fds, int flags);

/* Takes at most `most` descriptors, with close-on-exec; the others are dropped as `sender`'s (descriptors.h). The bytes
 * received, and *ret also of an empty message: 0; -errno. */
ssize_t rights_receive(int socket, struct iovec *parts, size_t n_parts, size_t most, int flags, uint64_t sender,
                       struct rights *ret);

/* Whether something lies unread in a socket of packets that is not read any more from here on: false, and closing it
 * waits for nobody. */
bool rights_are_left(int socket);
