/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever reaches a socket of the daemon's sends it what does not close: descriptors of a connection that lingers for
 * ten minutes, since its peer takes nothing. The daemon must not wait for them, wherever they are closed:
 *
 *      in place    where a listener is expected
 *      unread      in messages that nobody reads, since the connection ends before
 *      nested      inside a Unix socket, which closes what lies in it
 *      beside      with a message, 253 at once, 100 of them different
 *
 *      attack-listener-held DIR SOCKET...       on each of them, each way, on connections of their own: "sent N of M".
 *                                               Waits for the end of stdin, after which everything closes
 *      attack-listener-held control             what one such descriptor does to a receiver without a defence:
 *                                               "waited MS", of at most two seconds
 *
 * No driver, no tenant: any user's program. Exit status: 0; 2 its set-up failed.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
        LINGER_SEC = 600,
        CONTROL_SEC = 2,
        MOST = 253, /* descriptors of a message */
        DIFFERENT = 100,
};

enum way {
        IN_PLACE,
        UNREAD,
        NESTED,
        BESIDE,
        WAYS,
};

static _Noreturn void cannot(const char *what)
{
        perror(what);
        exit(2);
}

/* Its peer stays open here and reads nothing. */
static int lingering(int seconds)
{
        const struct linger linger = { 1, seconds };
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(at);
        int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
        static const char bytes[65536];

        (void)setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        if (bind(listener, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1) < 0 ||
            getsockname(listener, (struct sockaddr *)&at, &size) < 0 ||
            connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || accept(listener, NULL, NULL) < 0)
                cannot("a connection");
        (void)close(listener);
        while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
        if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0)
                cannot("SO_LINGER");
        return fd;
}

/* `n` descriptors, of which every n_fds-th is the same: the last one closed is the one that waits. */
static bool text_send(int to, const char *text, const int *fds, size_t n_fds, size_t n)
{
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(MOST * sizeof(int))];
        } control = { 0 };
        struct iovec data = { (void *)(size_t)text, strlen(text) };
        struct msghdr message = { .msg_iov = &data,
                                  .msg_iovlen = 1,
                                  .msg_control = &control,
                                  .msg_controllen = CMSG_SPACE(n * sizeof(int)) };

        control.header = (struct cmsghdr){ CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
        for (size_t i = 0; i < n; i++)
                memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &fds[i % n_fds], sizeof(int));
        return sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

/* -1: it takes no connection. */
static int reach(const char *dir, const char *name, bool is_stream)
{
        struct sockaddr_un at = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, is_stream ? SOCK_STREAM : SOCK_SEQPACKET, 0);

        (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", dir, name);
        if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
                return fd;
        (void)close(fd);
        return -1;
}

/* A Unix socket in which one of them lies. */
static int nested(void)
{
        int pair[2], fd = lingering(LINGER_SEC);

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || !text_send(pair[0], "x", &fd, 1, 1))
                cannot("a socket inside a socket");
        (void)close(fd);
        (void)close(pair[0]);
        return pair[1];
}

static const char *text_for(const char *name, bool is_listener)
{
        if (!strcmp(name, "seccomp.sock"))
                return is_listener ? "{}" : "{";
        if (!strcmp(name, "sublet.sock"))
                return is_listener ? "GET /v1/node HTTP/1.1\r\nHost: x\r\n\r\n" : "G";
        if (is_listener)
                return "{\"v\":1,\"type\":\"listener\"}";
        return "{\"v\":1,\"type\":\"other\"}";
}

static bool attack(const char *dir, const char *name, enum way way)
{
        bool is_stream = !strcmp(name, "seccomp.sock") || !strcmp(name, "sublet.sock"), is_sent = false;
        int to = reach(dir, name, is_stream), fds[DIFFERENT], n = way == BESIDE ? DIFFERENT : 1;

        for (int i = 0; i < n; i++)
                fds[i] = way == NESTED ? nested() : lingering(LINGER_SEC);
        if (to >= 0 && way == UNREAD) /* the first ends the connection */
                for (int i = 0; i < 20; i++)
                        is_sent |= text_send(to, "nonsense", fds, 1, 1);
        else if (to >= 0)
                is_sent = text_send(to, text_for(name, way == IN_PLACE), fds, (size_t)n, way == BESIDE ? MOST : 1);
        for (int i = 0; i < n && is_sent; i++) /* else it is we who would wait */
                (void)close(fds[i]);           /* from here on the receiver's is the last */
        if (way == UNREAD && to >= 0)
                (void)close(to);
        return is_sent;
}

static int control(void)
{
        struct timespec before, after;
        int pair[2], fd = lingering(CONTROL_SEC);
        char byte;

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || !text_send(pair[0], "x", &fd, 1, 1))
                cannot("sending");
        (void)close(fd);
        (void)clock_gettime(CLOCK_MONOTONIC, &before);
        (void)!recv(pair[1], &byte, 1, 0);
        (void)clock_gettime(CLOCK_MONOTONIC, &after);
        printf("waited %ld\n", (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
        return 0;
}

int main(int argc, char **argv)
{
        int n_sent = 0, n = 0;
        char line[8];

        if (argc == 2 && !strcmp(argv[1], "control"))
                return control();
        for (int i = 2; i < argc; i++)
                for (enum way way = IN_PLACE; way < WAYS; way++, n++)
                        n_sent += attack(argv[1], argv[i], way);
        printf("sent %d of %d\n", n_sent, n);
        (void)fflush(stdout);
        (void)!fgets(line, sizeof(line), stdin);
        return 0;
}
