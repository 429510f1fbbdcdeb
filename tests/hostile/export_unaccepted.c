/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor was sent into a connection that nobody has accepted. */
#define _GNU_SOURCE
#include "kit.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool hide(int fd)
{
        static int listener = -1;
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        socklen_t size = sizeof(address);
        char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
        struct iovec iov = { &byte, 1 };
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        int connection;

        if (listener < 0) {
                listener = socket(AF_UNIX, SOCK_STREAM, 0);
                if (bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)) < 0 || listen(listener, 64) < 0)
                        return false;
        }
        if (getsockname(listener, (struct sockaddr *)&address, &size) < 0)
                return false;
        connection = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(connection, (struct sockaddr *)&address, size) < 0)
                return false;
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
        if (sendmsg(connection, &message, MSG_DONTWAIT) != 1)
                return false;
        (void)close(connection); /* what is in flight stays with the listener */
        return true;
}

int main(void)
{
        kit_start();
        kit_hold(kit_hide_exports(hide));
        return 0;
}
