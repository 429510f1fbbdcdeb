/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory of clients whose makers have ended: their descriptors were passed on, and another process goes on with
 * them. */
#include "kit.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

union control {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
};

static void pass(int line, const struct kit_rm *rm)
{
        const int fds[2] = { rm->ctl, rm->node };
        union control control = { 0 };
        uint32_t client = rm->client;
        struct iovec text = { &client, sizeof(client) };
        struct msghdr message = {
                .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);

        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(fds));
        memcpy(CMSG_DATA(header), fds, sizeof(fds));
        _exit(sendmsg(line, &message, 0) < 0);
}

static void take_over(int line, struct kit_rm *ret)
{
        union control control = { 0 };
        struct iovec text = { &ret->client, sizeof(ret->client) };
        struct msghdr message = {
                .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        int fds[2];

        if (recvmsg(line, &message, 0) <= 0 || !CMSG_FIRSTHDR(&message))
                kit_cannot("no descriptors came");
        memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fds));
        ret->ctl = fds[0];
        ret->node = fds[1];
}

int main(void)
{
        uint64_t got = 0;

        for (int i = 0; i < 5; i++) {
                struct kit_rm rm;
                int line[2];
                pid_t child;

                if (socketpair(AF_UNIX, SOCK_STREAM, 0, line) < 0 || (child = fork()) < 0)
                        kit_cannot("no child");
                if (child == 0) {
                        kit_rm_open(&rm);
                        pass(line[1], &rm);
                }
                take_over(line[0], &rm);
                (void)waitpid(child, NULL, 0);
                if (i < 2)
                        kit_let_it_settle();
                got += kit_rm_take(&rm, KIT_MEMORY, 16, kit_quota_mib() / 2);
        }
        kit_hold(got);
        return 0;
}
