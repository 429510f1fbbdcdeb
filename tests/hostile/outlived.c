/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Video memory that outlives its tenant: one tenant keeps open a control file on which another, which then ends, made
 * its client. The driver takes a client down with that file. tests/integration/daemon/attacks-outlived.bats.
 *
 *      attack-outlived keep NAME    opens a control file and gives it to whoever connects to the abstract socket NAME
 *      attack-outlived take NAME    takes what its quota lets it have, by a client on that file: "holding mib=N"; ends
 */
#include "kit.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union control {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
};

static int line_open(const char *name, bool listens)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int line = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        socklen_t size;

        (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);
        size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
        if (listens)
                return bind(line, (void *)&address, size) < 0 || listen(line, 16) < 0 ? -1 : line;
        for (int i = 0; i < 1000; i++, (void)usleep(10000))
                if (connect(line, (void *)&address, size) == 0)
                        return line;
        return -1;
}

static int keep(const char *name)
{
        int line = line_open(name, true), ctl = open("/dev/nvidiactl", O_RDWR), other;

        if (line < 0 || ctl < 0)
                kit_cannot("no socket or no control file");
        while ((other = accept(line, NULL, NULL)) >= 0) {
                union control control = { 0 };
                struct iovec text = { &(char){ 0 }, 1 };
                struct msghdr message = {
                        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
                };
                struct cmsghdr *header = CMSG_FIRSTHDR(&message);

                header->cmsg_level = SOL_SOCKET;
                header->cmsg_type = SCM_RIGHTS;
                header->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(header), &ctl, sizeof(int));
                (void)sendmsg(other, &message, 0);
                (void)close(other);
        }
        return 0;
}

static int take(const char *name)
{
        union control control = { 0 };
        struct iovec text = { &(char){ 0 }, 1 };
        struct msghdr message = {
                .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        struct kit_rm rm;
        int ctl;

        if (recvmsg(line_open(name, false), &message, 0) <= 0 || !CMSG_FIRSTHDR(&message))
                kit_cannot("no descriptor came");
        memcpy(&ctl, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(ctl));
        if (!kit_rm_open_on(&rm, ctl))
                kit_cannot("no client on it");
        kit_hold(kit_rm_take(&rm, KIT_MEMORY, 16, 4 * kit_quota_mib()));
        return 0;
}

int main(int argc, char **argv)
{
        if (argc != 3)
                return 2;
        return strcmp(argv[1], "keep") == 0 ? keep(argv[2]) : take(argv[2]);
}
