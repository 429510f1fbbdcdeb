/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon or a shim says to `sublet run`, in any order.
 *
 *      steps: what (1), descriptors (1), size (2), text
 *
 * A lease is taken with a name that fits, only text goes into the environment, one report counts and only the command
 * is ended. A wait takes no time. At the end no descriptor is left.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int heard_variable(const char *name, const char *value, int overwrite);
static int heard_kill(pid_t process, int signal_number);
static int waited_poll(struct pollfd *fds, nfds_t n, int msec);
static int heard_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define run_print_event heard_event
#define fprintf heard_line
#define setenv heard_variable
#define kill heard_kill
#define poll waited_poll
#include "run/with_daemon.c"
#undef fprintf
#undef setenv
#undef kill
#undef poll

#include "base/rights.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

enum {
        CHILD = 4242,
        STEPS_MAX = 64,
        DESCRIPTORS_MAX = 128,
        KINDS = 4,
};

static const uint8_t *at;
static size_t left;

static void require(bool holds)
{
        if (!holds)
                abort();
}

static uint8_t next(void)
{
        if (!left)
                return 0;
        left--;
        return *at++;
}

static unsigned int count_descriptors(void)
{
        unsigned int n = 0;

        for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

static int heard_variable(const char *name, const char *value, int overwrite)
{
        require(overwrite && value);
        return *name && !strchr(name, '=') ? 0 : (errno = EINVAL, -1);
}

static int heard_kill(pid_t process, int signal_number)
{
        require(process == CHILD && signal_number == SIGKILL);
        return 0;
}

void heard_event(struct run *run, enum event_kind event, pid_t process, const char *detail, uint64_t n_unsent)
{
        (void)process;
        (void)n_unsent;
        require(run->child == CHILD && event >= 0 && event < EVENT_N && detail);
}

/* What it tells people goes nowhere. */
static int heard_line(FILE *to, const char *format, ...)
{
        require(to == stderr && format[0]);
        return 0;
}

static int waited_poll(struct pollfd *fds, nfds_t n, int msec)
{
        (void)msec;
        return poll(fds, n, 0);
}

static void packet_send(int peer)
{
        int event = eventfd(0, EFD_CLOEXEC);
        const int fds[MESSAGE_FDS] = { event, event, event, event };
        size_t n = next() % (MESSAGE_FDS + 1u), size = next();

        size |= (size_t)next() << 8;
        size = size < left ? size : left;
        (void)rights_send(peer, &(struct iovec){ (void *)(uintptr_t)at, size }, 1, fds, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        at += size;
        left -= size;
        closep(&event);
}

static void is_granted(struct run_talk *talk)
{
        struct err err = { 0 };
        int r;

        closep(&talk->descriptor);
        closep(&talk->segment);
        r = await_grant(talk, &err);
        require(r <= 0 && (r == 0 || r == -EINVAL || err.text[0]));
        require(strnlen(talk->run->lease.tenant, sizeof(talk->run->lease.tenant)) < sizeof(talk->run->lease.tenant));
}

static void step(struct run_talk *talk, int peer)
{
        const json_t *report = talk->report;
        unsigned int what = next() % KINDS;

        packet_send(peer);
        talk->is_looking |= what == 1;
        if (talk->socket < 0)
                return;
        if (what == 0)
                is_granted(talk);
        else
                talk_receive(talk);
        require(!report || talk->report == report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct run run = { .child = CHILD, .tenant = "t", .dir = "/nonexistent" };
        struct run_talk talk = { .run = &run, .descriptor = -1, .segment = -1 };
        unsigned int n = count_descriptors();
        nsec until = clock_now() + 10 * NSEC_PER_SEC;
        int ends[2];

        at = data;
        left = size;
        require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        talk.socket = ends[0];
        for (int i = 0; i < STEPS_MAX && left; i++)
                step(&talk, ends[1]);
        run_talk_done(&talk);
        closep(&ends[1]);
        while (count_descriptors() != n) /* threads close what was sent (base/descriptors.h) */
                require(clock_now() < until);
        return 0;
}
