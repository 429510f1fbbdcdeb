/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters of one tenant. As a rule there is one. A runtime that puts another process into a running container
 * (exec) gives it a filter of its own, with a listener of its own. What that process does is the tenant's: the same
 * lease, the same ledger. Each listener has its own reader and its own threads, so that none waits for another's
 * (G4).
 *
 * Joining (gate_join) and finding that the last has gone (notify_listeners_check) happen under one mutex: nothing
 * joins behind the last one, whose ledger is being closed.
 */
#include "gate/listen.h"
#include "gate/move/waiting.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

/* The watcher clears a slot a moment after its last process has ended. */
#define CLEARED_BY NSEC_PER_SEC

void notify_listeners_init(struct gate *gate, int fd)
{
        (void)pthread_mutex_init(&gate->listeners_mutex, NULL);
        for (size_t i = 0; i < GATE_LISTENERS_MAX; i++) {
                struct notify_listener *listener = &gate->listeners[i];

                listener->gate = gate;
                waiting_init(listener);
                listener->fd = i ? -1 : fd;
                (void)pthread_mutex_init(&listener->reader.mutex, NULL);
                (void)pthread_cond_init(&listener->reader.free, NULL);
        }
}

void notify_listeners_done(struct gate *gate)
{
        for (size_t i = 0; i < GATE_LISTENERS_MAX; i++)
                waiting_drop(&gate->listeners[i]); /* the watcher may have had some while others were dropped */
        for (size_t i = 0; i < GATE_LISTENERS_MAX; i++)
                if (gate->listeners[i].fd >= 0)
                        (void)close(gate->listeners[i].fd);
}

static int listener_put(struct gate *gate, int fd, struct notify_listener **ret)
{
        if (gate->is_empty)
                return -ESHUTDOWN;
        for (size_t i = 1; i < GATE_LISTENERS_MAX; i++) {
                struct notify_listener *listener = &gate->listeners[i];

                if (listener->fd >= 0)
                        continue;
                listener->is_empty = false;
                listener->fd = fd;
                *ret = listener;
                return 0;
        }
        return -EBUSY;
}

/* A slot whose processes have ended and that the watcher has not cleared yet. */
static bool has_ended_one(const struct gate *gate)
{
        for (size_t i = 1; i < GATE_LISTENERS_MAX; i++) {
                struct pollfd fd = { gate->listeners[i].fd, 0, 0 };

                if (gate->listeners[i].is_empty || (poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP))
                        return true;
        }
        return false;
}

/* Waits only while a slot is about to be free: a tenant that keeps all of its own filled holds up nobody. */
static int wait_for_slot(struct gate *gate, int fd, struct notify_listener **ret)
{
        nsec until = clock_now() + CLEARED_BY;

        for (;;) {
                struct timespec moment = { .tv_nsec = NSEC_PER_MSEC };
                bool is_soon;
                int r;

                (void)pthread_mutex_lock(&gate->listeners_mutex);
                r = listener_put(gate, fd, ret);
                is_soon = r == -EBUSY && has_ended_one(gate);
                (void)pthread_mutex_unlock(&gate->listeners_mutex);
                if (!is_soon || clock_now() > until)
                        return r;
                (void)eventfd_write(gate->wake, 1);
                (void)nanosleep(&moment, NULL);
        }
}

int gate_join(struct gate *gate, int fd)
{
        struct notify_listener *listener;
        int r = wait_for_slot(gate, fd, &listener);

        if (r < 0)
                return r;
        (void)eventfd_write(gate->wake, 1); /* the watcher polls it from now on */
        if (pool_start(listener) < 0)
                listener->is_empty = true; /* the watcher closes it: ENOSYS, not a call that waits for ever */
        return 0;
}

size_t notify_listeners_poll(struct gate *gate, struct pollfd fds[static GATE_LISTENERS_MAX])
{
        size_t n = 0;

        (void)pthread_mutex_lock(&gate->listeners_mutex);
        for (size_t i = 0; i < GATE_LISTENERS_MAX; i++)
                if (gate->listeners[i].fd >= 0 && !gate->listeners[i].is_empty)
                        fds[n++] = (struct pollfd){ gate->listeners[i].fd, 0, 0 };
        (void)pthread_mutex_unlock(&gate->listeners_mutex);
        return n;
}

static bool has_hung_up(const struct pollfd *fds, size_t n, int fd)
{
        for (size_t i = 0; i < n; i++)
                if (fds[i].fd == fd)
                        return fds[i].revents & (POLLHUP | POLLERR | POLLNVAL);
        return false;
}

bool notify_listeners_check(struct gate *gate, const struct pollfd *fds, size_t n)
{
        bool was_empty = gate->is_empty, is_empty = true;

        (void)pthread_mutex_lock(&gate->listeners_mutex);
        for (size_t i = 0; i < GATE_LISTENERS_MAX; i++) {
                struct notify_listener *listener = &gate->listeners[i];

                if (listener->fd < 0)
                        continue;
                if (has_hung_up(fds, n, listener->fd))
                        listener->is_empty = true;
                is_empty &= listener->is_empty;
        }
        gate->is_empty = is_empty;
        (void)pthread_mutex_unlock(&gate->listeners_mutex);
        if (!is_empty || was_empty)
                return false;
        (void)eventfd_write(gate->over, 1);
        return true;
}

bool notify_listeners_clear(struct gate *gate)
{
        bool is_left = false;

        for (size_t i = 0; i < GATE_LISTENERS_MAX; i++) {
                struct notify_listener *listener = &gate->listeners[i];
                int fd = listener->fd;

                if (fd < 0 || !listener->is_empty)
                        continue;
                if (!pool_end(listener)) {
                        is_left = true;
                        continue;
                }
                if (!i)
                        continue; /* the first stays where it was, for gate_wait */
                listener->fd = -1;
                (void)close(fd);
        }
        return is_left;
}
