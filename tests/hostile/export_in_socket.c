/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose only descriptor is in flight in a socket of the tenant. */
#define _GNU_SOURCE
#include "kit.h"

#include <string.h>
#include <sys/socket.h>

static bool hide(int fd)
{
        static int pair[2] = { -1, -1 };
        char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
        struct iovec iov = { &byte, 1 };
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);

        if (pair[0] < 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
                return false;
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
        return sendmsg(pair[0], &message, MSG_DONTWAIT) == 1;
}

int main(void)
{
        kit_start();
        kit_hold(kit_hide_exports(hide));
        return 0;
}
