/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rights.h"

#include "base/descriptors.h"

#include <errno.h>
#include <string.h>

union control {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int) * RIGHTS_ALL)];
};

ssize_t rights_send(int socket, struct iovec *parts, size_t n_parts, const int *fds, size_t n_fds, int flags)
{
        union control control = { 0 };
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = n_parts };
        ssize_t n;

        if (n_fds > RIGHTS_MAX)
                return -EMSGSIZE;
        if (n_fds) {
                message.msg_control = &control;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int) * n_fds),
                                                   .cmsg_level = SOL_SOCKET,
                                                   .cmsg_type = SCM_RIGHTS };
                memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n_fds);
        }
        do
                n = sendmsg(socket, &message, flags);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

static void fds_take(const struct cmsghdr *header, size_t most, uint64_t sender, struct rights *ret)
{
        size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (size_t i = 0; i < n; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
                if (ret->n < most && ret->n < RIGHTS_MAX) {
                        ret->fds[ret->n++] = fd;
                } else {
                        descriptors_drop(fd, sender);
                        ret->flags |= MSG_CTRUNC;
                }
        }
}

ssize_t rights_receive(int socket, struct iovec *parts, size_t n_parts, size_t most, int flags, uint64_t sender,
                       struct rights *ret)
{
        union control control;
        struct msghdr message = {
                .msg_iov = parts, .msg_iovlen = n_parts, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        ssize_t n;

        *ret = (struct rights){ .fds = { -1, -1, -1, -1 } };
        do
                n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        ret->flags = message.msg_flags;
        for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
                if (header->cmsg_level != SOL_SOCKET)
                        continue;
                if (header->cmsg_type == SCM_CREDENTIALS)
                        memcpy(&ret->sender, CMSG_DATA(header), sizeof(ret->sender));
                if (header->cmsg_type == SCM_RIGHTS)
                        fds_take(header, most, sender, ret);
        }
        return n;
}

/* A packet comes with who sent it, also an empty one; the end of the connection does not. There is no room for
 * descriptors: the kernel drops its copies. Source: unix_dgram_recvmsg, scm_recv_unix (net/unix), 5.10 to 6.18. */
bool rights_are_left(int socket)
{
        char control[CMSG_SPACE(sizeof(struct ucred))] __attribute__((aligned(8)));
        struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };
        int on = 1;

        if (shutdown(socket, SHUT_RD) < 0 || setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
                return true;
        return recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 0 || message.msg_controllen;
}
