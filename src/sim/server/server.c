/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets and time. One thread, one epoll: listening sockets for the nodes, a connection for each open
 * of a node, a timer for the machine's next action, a control socket for faults, and the signal that
 * ends the server.
 */
#include "sim/server/machine.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/rights.h"
#include "net/socket.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

enum source_kind {
        SOURCE_NODE,       /* a node is opened */
        SOURCE_CONNECTION, /* a request, or a close */
        SOURCE_CONTROL,    /* a fault is requested */
        SOURCE_TIMER,
        SOURCE_SIGNAL,
};

struct source {
        struct source *next;
        enum source_kind kind;
        int fd; /* a connection's belongs to its file */
        enum rm_node node;
        uint32_t minor;
        struct file *file;
};

struct server {
        struct machine machine;
        struct source *sources;
        int epoll, timer;
        nsec armed; /* when the timer rings */
        bool is_over;
        unsigned char buffer[SIM_MESSAGE_MAX + 1];
};

/* ---- sources ------------------------------------------------------------------------------- */

static int source_add(struct server *server, const struct source *what)
{
        struct source *source = malloc(sizeof(*source));
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

        if (!source)
                return -ENOMEM;
        *source = *what;
        if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, source->fd, &event) < 0) {
                free(source);
                return -errno;
        }
        source->next = server->sources;
        server->sources = source;
        return 0;
}

static void source_remove(struct server *server, struct source *source)
{
        LIST_REMOVE(&server->sources, source);
        if (source->kind == SOURCE_CONNECTION)
                machine_hang_up(source->file);
        else
                close(source->fd);
        free(source);
}

static int listen_at(struct server *server, enum source_kind kind, const char *name, enum rm_node node, uint32_t minor)
{
        _cleanup_(closep) int fd =
                socket_listen(SOCK_SEQPACKET | SOCK_NONBLOCK, 0666, "%s/%s", server->machine.options.directory, name);
        int on = 1, r;

        if (fd < 0)
                return fd;
        if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
                return -errno;
        r = source_add(server, &(struct source){ .kind = kind, .fd = fd, .node = node, .minor = minor });
        if (!r)
                (void)TAKE_FD(fd);
        return r;
}

static int listen_all(struct server *server)
{
        char name[32];
        int r;

        r = listen_at(server, SOURCE_NODE, "dev/nvidiactl", RM_NODE_CTL, 0);
        if (!r)
                r = listen_at(server, SOURCE_NODE, "dev/nvidia-uvm", RM_NODE_UVM, 0);
        if (!r)
                r = listen_at(server, SOURCE_NODE, "dev/nvidia-uvm-tools", RM_NODE_UVM_TOOLS, 0);
        if (!r)
                r = listen_at(server, SOURCE_CONTROL, "control", RM_NODE_OTHER, 0);
        for (unsigned int i = 0; i < server->machine.options.n_gpus && !r; i++) {
                (void)snprintf(name, sizeof(name), "dev/nvidia%u", i);
                r = listen_at(server, SOURCE_NODE, name, RM_NODE_DEVICE, i);
        }
        return r;
}

/* ---- messages ------------------------------------------------------------------------------ */

static void on_message(struct server *server, struct source *source)
{
        _cleanup_(closep) int named = -1;
        struct rights rights;
        uint64_t cookie = 0;
        socklen_t size = sizeof(cookie);
        ssize_t n = rights_receive(source->fd, &(struct iovec){ server->buffer, sizeof(server->buffer) }, 1, 2,
                                   MSG_DONTWAIT, DESCRIPTORS_OURS, &rights);

        if (n == -EAGAIN)
                return;
        if (n <= 0) {
                source_remove(server, source);
                return;
        }
        named = rights.fds[1];
        if (named >= 0 && getsockopt(named, SOL_SOCKET, SO_COOKIE, &cookie, &size) < 0)
                cookie = 0;
        machine_message(source->file, server->buffer, (size_t)n, rights.sender, cookie, rights.fds[0]);
}

static void on_open(struct server *server, const struct source *source)
{
        struct source connection = { .kind = SOURCE_CONNECTION };
        int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), on = 1;

        if (fd < 0)
                return;
        (void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
        connection.fd = fd;
        if (machine_file_new(&server->machine, source->node, source->minor, fd, &connection.file) < 0)
                close(fd);
        else if (source_add(server, &connection) < 0)
                machine_hang_up(connection.file);
}

/* One fault, as text; the answer is an error message, or empty. */
static void on_control(struct server *server, const struct source *source)
{
        _cleanup_(closep) int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC);
        struct timeval patience = { .tv_sec = 1 };
        char text[128];
        const char *answer = "";
        ssize_t n;

        if (fd < 0)
                return;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        n = recv(fd, text, sizeof(text) - 1, 0);
        if (n < 0)
                return;
        text[n] = 0;
        if (machine_fault(&server->machine, text) < 0)
                answer = "no such fault";
        (void)send(fd, answer, strlen(answer) + 1, MSG_NOSIGNAL);
}

static void on_event(struct server *server, struct source *source)
{
        uint64_t ignored;

        switch (source->kind) {
        case SOURCE_NODE:
                on_open(server, source);
                return;
        case SOURCE_CONNECTION:
                on_message(server, source);
                return;
        case SOURCE_CONTROL:
                on_control(server, source);
                return;
        case SOURCE_TIMER:
                server->armed = RUN_NEVER;
                (void)!read(source->fd, &ignored, sizeof(ignored));
                return;
        case SOURCE_SIGNAL:
                server->is_over = true;
                return;
        }
}

/* ---- time ---------------------------------------------------------------------------------- */

/* The difference of two clocks that are read one after the other jitters: the old one is kept until a
 * clock has been set. */
static void time_update(struct server *server)
{
        nsec since = clock_realtime(), now = clock_now();

        since -= now;
        server->machine.now = now;
        if (since - server->machine.realtime_since > NSEC_PER_MSEC ||
            since - server->machine.realtime_since < -NSEC_PER_MSEC)
                server->machine.realtime_since = since;
}

static void timer_arm(struct server *server, nsec when)
{
        struct itimerspec spec = { 0 };

        if (when == server->armed)
                return;
        server->armed = when;
        if (when != RUN_NEVER) {
                when = when > 0 ? when : 1; /* 0 would disarm */
                spec.it_value = (struct timespec){ .tv_sec = when / NSEC_PER_SEC, .tv_nsec = when % NSEC_PER_SEC };
        }
        (void)timerfd_settime(server->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static int server_start(struct server *server, const struct machine_options *options, const char *const *faults)
{
        struct rlimit files = { 65536, 65536 };
        sigset_t term;
        int fd, r;

        (void)setrlimit(RLIMIT_NOFILE, &files); /* each memory that is accessed has a descriptor */
        server->armed = RUN_NEVER;
        server->epoll = epoll_create1(EPOLL_CLOEXEC);
        server->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, &term, NULL);
        fd = signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
        if (server->epoll < 0 || server->timer < 0 || fd < 0)
                return -errno;
        r = source_add(server, &(struct source){ .kind = SOURCE_SIGNAL, .fd = fd });
        if (!r)
                r = machine_files_make(options);
        if (!r)
                r = source_add(server, &(struct source){ .kind = SOURCE_TIMER, .fd = server->timer });
        if (!r)
                r = machine_init(&server->machine, options, clock_now());
        if (!r)
                r = listen_all(server);
        for (size_t i = 0; faults[i] && !r; i++)
                r = machine_fault(&server->machine, faults[i]);
        return r;
}

static int server_loop(struct server *server)
{
        struct epoll_event events[1];
        int n;

        while (!server->is_over) {
                time_update(server);
                timer_arm(server, machine_advance(&server->machine));
                /* One at a time: an event may remove the source of another. */
                n = epoll_wait(server->epoll, events, 1, -1);
                if (n < 0 && errno != EINTR)
                        return -errno;
                time_update(server);
                if (n > 0)
                        on_event(server, events[0].data.ptr);
        }
        return 0;
}

int server_run(const struct machine_options *options, const char *const *faults, int ready)
{
        struct server *server = calloc(1, sizeof(*server));
        int r;

        if (!server)
                return -ENOMEM;
        r = server_start(server, options, faults);
        if (!r && write(ready, "", 1) == 1)
                r = server_loop(server);
        while (server->sources)
                source_remove(server, server->sources);
        machine_done(&server->machine);
        close(server->epoll);
        free(server);
        return r;
}
