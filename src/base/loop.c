/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include "base/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

enum {
        EVENTS_MAX = 64,
};

struct loop {
        int epoll;
        struct loop_timer *timers; /* few: a list will do */
        struct epoll_event round[EVENTS_MAX];
        int n_round; /* events of this round that are not yet served lie below */
        bool is_stopped;
};

int loop_new(struct loop **ret)
{
        struct loop *loop = calloc(1, sizeof(*loop));

        if (!loop)
                return -ENOMEM;
        loop->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (loop->epoll < 0) {
                free(loop);
                return -errno;
        }
        *ret = loop;
        return 0;
}

struct loop *loop_free(struct loop *loop)
{
        if (loop)
                closep(&loop->epoll);
        free(loop);
        return NULL;
}

int loop_add(struct loop *loop, struct loop_source *source, uint32_t events)
{
        struct epoll_event event = { .events = events, .data.ptr = source };

        if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) < 0)
                return -errno;
        source->is_added = true;
        return 0;
}

int loop_add_end(struct loop *loop, struct loop_source *source)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
        source->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return source->fd < 0 ? -errno : loop_add(loop, source, EPOLLIN);
}

void loop_drop(struct loop *loop, struct loop_source *source)
{
        if (!source->is_added)
                return;
        (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
        source->is_added = false;
        for (int i = 0; i < loop->n_round; i++)
                if (loop->round[i].data.ptr == source)
                        loop->round[i].data.ptr = NULL;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, nsec delay, nsec period)
{
        timer->at = clock_now() + delay;
        timer->period = period;
        if (timer->is_added)
                return;
        timer->is_added = true;
        timer->next = loop->timers;
        loop->timers = timer;
}

void loop_timer_drop(struct loop *loop, struct loop_timer *timer)
{
        struct loop_timer **at = &loop->timers;

        if (!timer->is_added)
                return;
        while (*at != timer)
                at = &(*at)->next;
        *at = timer->next;
        timer->is_added = false;
}

/* The next one to come; NULL: there is none. */
static struct loop_timer *first_timer(const struct loop *loop)
{
        struct loop_timer *first = loop->timers;

        for (struct loop_timer *timer = first; timer; timer = timer->next)
                if (timer->at < first->at)
                        first = timer;
        return first;
}

static void serve_timers(struct loop *loop)
{
        nsec now = clock_now();
        struct loop_timer *timer;

        while ((timer = first_timer(loop)) && timer->at <= now && !loop->is_stopped) {
                if (timer->period)
                        timer->at = timer->at + timer->period > now ? timer->at + timer->period : now + timer->period;
                else
                        loop_timer_drop(loop, timer);
                timer->due(timer);
        }
}

static void serve_round(struct loop *loop, int n)
{
        for (loop->n_round = n; n > 0 && !loop->is_stopped; n--) {
                struct epoll_event *event = &loop->round[n - 1];
                struct loop_source *source = event->data.ptr;

                if (source)
                        source->ready(source, event->events);
        }
        loop->n_round = 0;
}

/* Milliseconds, rounded up: a timer is never early, so the loop does not spin before it. */
static int time_left(const struct loop *loop)
{
        const struct loop_timer *timer = first_timer(loop);
        nsec left = timer ? timer->at - clock_now() : -1;

        if (!timer)
                return -1;
        return left <= 0 ? 0 : (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

int loop_run(struct loop *loop)
{
        while (!loop->is_stopped) {
                int n = epoll_wait(loop->epoll, loop->round, EVENTS_MAX, time_left(loop));

                if (n < 0 && errno != EINTR)
                        return -errno;
                serve_round(loop, n);
                serve_timers(loop);
        }
        loop->is_stopped = false;
        return 0;
}

void loop_stop(struct loop *loop)
{
        loop->is_stopped = true;
}
