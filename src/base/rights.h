/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with descriptors (SCM_RIGHTS) over Unix sockets.
 *
 * Both continue after a signal. Threads: any. libc only.
 */
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
        RIGHTS_MAX = 4, /* descriptors of a message */
};

struct rights {
        int fds[RIGHTS_MAX]; /* the caller's; -1 from n on */
        size_t n;
        struct ucred sender; /* where SO_PASSCRED is set; else zeros */
        int flags;           /* MSG_TRUNC; MSG_CTRUNC: more descriptors came than wanted, and were closed */
};

/* flags: as of sendmsg(2). The descriptors stay the caller's; n_fds may be 0. The bytes sent; -errno. */
ssize_t rights_send(int socket, struct iovec *parts, size_t n_parts, const int *fds, size_t n_fds, int flags);

/* Takes at most `most` descriptors, with close-on-exec. The bytes received, and *ret also of an empty message: 0;
 * -errno. */
ssize_t rights_receive(int socket, struct iovec *parts, size_t n_parts, size_t most, int flags, struct rights *ret);
