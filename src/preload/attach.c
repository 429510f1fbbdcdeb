/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/attach.h"

#include "base/cleanup.h"
#include "gate/gate.h"
#include "preload/next.h"
#include "preload/usage_segment.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

/* Linux 5.7 and 5.19; older headers lack them. */
#ifndef SECCOMP_FILTER_FLAG_TSYNC_ESRCH
#define SECCOMP_FILTER_FLAG_TSYNC_ESRCH (1UL << 4)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static atomic_bool is_on;
static const char *_Atomic refusal;

bool attach_is_on(void)
{
        return is_on;
}

const char *attach_refusal(void)
{
        return refusal;
}

/* ---- the gate ------------------------------------------------------------------------------------ */

/* By a raw system call: an interposed ioctl has nothing to do with descriptor -1. */
static bool is_below_gate(uint64_t tenancy)
{
        return (uint64_t)syscall(SYS_ioctl, -1, GATE_PROBE, 0L) == tenancy;
}

/* Returns the notify listener, or -errno. */
static int attach_install(const struct lease_descriptor *descriptor)
{
        struct sock_filter filter[LEASE_DESCRIPTOR_FILTER_MAX];
        struct sock_fprog program = { .len = (unsigned short)descriptor->n_filter, .filter = filter };
        long fd;

        memcpy(filter, descriptor->filter, descriptor->n_filter * sizeof(*filter));
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                     SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV |
                             SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
                     &program);
        return fd < 0 ? -errno : (int)fd;
}

/* ---- the daemon ---------------------------------------------------------------------------------- */

static int attach_connect(const char *listening_socket)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct timeval patience = { .tv_sec = ATTACH_MS / 1000 };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        memcpy(address.sun_path, listening_socket, sizeof(address.sun_path));
        if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
            connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
                int r = -errno;

                (void)next_close(fd);
                return r;
        }
        return fd;
}

/* Sends a packet (docs/messages.md), with a descriptor unless fd is -1. 0 if the answer has the expected type. */
static int attach_exchange(int socket, const char *text, int fd, const char *expected)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = { 0 };
        struct iovec data = { (void *)(uintptr_t)text, strlen(text) };
        struct msghdr packet = { .msg_iov = &data, .msg_iovlen = 1 };
        char answer[512];
        ssize_t n;

        if (fd >= 0) {
                packet.msg_control = &control;
                packet.msg_controllen = sizeof(control);
                control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                                   .cmsg_type = SCM_RIGHTS,
                                                   .cmsg_len = CMSG_LEN(sizeof(int)) };
                memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        }
        if (sendmsg(socket, &packet, MSG_NOSIGNAL) < 0)
                return -errno;
        n = recv(socket, answer, sizeof(answer) - 1, 0);
        if (n <= 0)
                return n < 0 ? -errno : -ECONNRESET;
        answer[n] = '\0';
        return strstr(answer, expected) ? 0 : -EACCES;
}

static int attach_ask(int socket, const struct lease_descriptor *descriptor)
{
        static const char digits[] = "0123456789abcdef";
        char token[2 * LEASE_DESCRIPTOR_TOKEN + 1] = "", text[160];

        for (size_t i = 0; i < LEASE_DESCRIPTOR_TOKEN; i++) {
                token[2 * i] = digits[descriptor->token[i] >> 4];
                token[2 * i + 1] = digits[descriptor->token[i] & 15];
        }
        (void)snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"attach\",\"tenancy\":%llu,\"token\":\"%s\"}",
                       (unsigned long long)descriptor->tenancy, token);
        return attach_exchange(socket, text, -1, "\"type\":\"go\"");
}

static int attach_hand_over(int socket, const struct lease_descriptor *descriptor)
{
        int listener = attach_install(descriptor), r;
        char text[64];

        if (listener < 0) {
                (void)snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"failed\",\"code\":%d}", -listener);
                /* The answer means that the quota may be kept inside again. */
                (void)attach_exchange(socket, text, -1, "\"type\":\"refused\"");
                return listener;
        }
        is_on = true; /* from here on the kernel or the gate answers, whatever happens */
        r = attach_exchange(socket, "{\"v\":1,\"type\":\"listener\"}", listener, "\"type\":\"attached\"");
        (void)next_close(listener);
        return r;
}

/* Returns the socket at which it may hand itself over, or -errno. Where many connect at once, one that has not said
 * anything yet may be dropped (daemon/accept.c): then another. */
static int attach_reach(const struct lease_descriptor *descriptor)
{
        int socket, r = -ECONNRESET;

        for (int i = 0; i < ATTACH_TRIES && (r == -ECONNRESET || r == -EPIPE); i++) {
                socket = attach_connect(descriptor->listening_socket);
                if (socket < 0)
                        return socket;
                r = attach_ask(socket, descriptor);
                if (r == 0)
                        return socket;
                (void)next_close(socket);
        }
        return r;
}

static int attach_decide(const struct lease_descriptor *descriptor)
{
        int socket = attach_reach(descriptor), r;

        if (socket < 0)
                return socket;
        r = attach_hand_over(socket, descriptor);
        (void)next_close(socket);
        return r;
}

/* Leaves the error in the usage segment, from which the daemon shows it. */
static void attach_note(enum lease_descriptor_source source, int error)
{
        int fd = lease_descriptor_open_segment(source), value = -error;

        if (fd < 0)
                return;
        (void)!pwrite(fd, &value, sizeof(value), offsetof(struct usage_segment, attach_error));
        (void)next_close(fd);
}

void attach_begin(const struct lease_descriptor *descriptor, enum lease_descriptor_source source)
{
        int r;

        if (descriptor->attach == LEASE_DESCRIPTOR_ATTACH_NEVER || is_on)
                return;
        is_on = is_below_gate(descriptor->tenancy); /* A1 */
        if (is_on)
                return;
        r = descriptor->n_filter && descriptor->listening_socket[0] ? attach_decide(descriptor) : -ENOENT;
        if (r == 0 || is_on)
                return;
        attach_note(source, r);
        if (descriptor->attach == LEASE_DESCRIPTOR_ATTACH_REQUIRED)
                refusal = "its lease requires the daemon's gate, and it could not be attached ('sublet doctor')";
}
