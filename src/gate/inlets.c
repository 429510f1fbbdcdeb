/*
 * The filters of one tenant. As a rule there is one; a runtime that puts another process into a running container (exec)
 * gives it a filter of its own, with a listener of its own. What those processes do is the tenant's: the same lease,
 * the same books. Each inlet has its own reader and its own threads, so that none waits for another's (G4).
 *
 * Who comes (gate_join) and who is the last to go (inlets_look) is decided under one mutex: nobody comes in behind the
 * last one, whose books are being closed.
 */
#include "gate/request.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

/* The watcher clears a place a moment after its last process has ended. */
#define CLEARED_BY NSEC_PER_SEC

void inlets_init(struct gate *gate, int listener)
{
        (void)pthread_mutex_init(&gate->inlets_mutex, NULL);
        for (size_t i = 0; i < GATE_INLETS; i++) {
                struct inlet *inlet = &gate->inlets[i];

                inlet->gate = gate;
                inlet->listener = i ? -1 : listener;
                (void)pthread_mutex_init(&inlet->reader.mutex, NULL);
                (void)pthread_cond_init(&inlet->reader.free, NULL);
        }
}

void inlets_done(struct gate *gate)
{
        for (size_t i = 0; i < GATE_INLETS; i++)
                if (gate->inlets[i].listener >= 0)
                        (void)close(gate->inlets[i].listener);
}

static int put(struct gate *gate, int listener, struct inlet **ret)
{
        if (gate->is_empty)
                return -ESHUTDOWN;
        for (size_t i = 1; i < GATE_INLETS; i++) {
                struct inlet *inlet = &gate->inlets[i];

                if (inlet->listener >= 0)
                        continue;
                inlet->is_empty = false;
                inlet->listener = listener;
                *ret = inlet;
                return 0;
        }
        return -EBUSY;
}

/* A place whose processes have ended, that the watcher has not cleared yet. */
static bool has_ended_one(const struct gate *gate)
{
        for (size_t i = 1; i < GATE_INLETS; i++) {
                struct pollfd fd = { gate->inlets[i].listener, 0, 0 };

                if (gate->inlets[i].is_empty || (poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP))
                        return true;
        }
        return false;
}

/* Waits for a place only while one is about to be free: a tenant that keeps all of its own filled holds up nobody. */
static int find_place(struct gate *gate, int listener, struct inlet **ret)
{
        nsec until = clock_now() + CLEARED_BY;

        for (;;) {
                struct timespec moment = { .tv_nsec = NSEC_PER_MSEC };
                bool is_soon;
                int r;

                (void)pthread_mutex_lock(&gate->inlets_mutex);
                r = put(gate, listener, ret);
                is_soon = r == -EBUSY && has_ended_one(gate);
                (void)pthread_mutex_unlock(&gate->inlets_mutex);
                if (!is_soon || clock_now() > until)
                        return r;
                (void)eventfd_write(gate->wake, 1);
                (void)nanosleep(&moment, NULL);
        }
}

int gate_join(struct gate *gate, int listener)
{
        struct inlet *inlet;
        int r = find_place(gate, listener, &inlet);

        if (r < 0)
                return r;
        (void)eventfd_write(gate->wake, 1); /* the watcher is to look after it, too */
        if (pool_start(inlet) < 0)
                inlet->is_empty = true; /* the watcher closes it: ENOSYS, not a call that waits for ever */
        return 0;
}

bool inlets_are_busy(const struct gate *gate)
{
        for (size_t i = 0; i < GATE_INLETS; i++)
                if (gate->inlets[i].listener >= 0 && gate->inlets[i].reader.serving_since)
                        return true;
        return false;
}

size_t inlets_poll(struct gate *gate, struct pollfd fds[static GATE_INLETS])
{
        size_t n = 0;

        (void)pthread_mutex_lock(&gate->inlets_mutex);
        for (size_t i = 0; i < GATE_INLETS; i++)
                if (gate->inlets[i].listener >= 0 && !gate->inlets[i].is_empty)
                        fds[n++] = (struct pollfd){ gate->inlets[i].listener, 0, 0 };
        (void)pthread_mutex_unlock(&gate->inlets_mutex);
        return n;
}

static bool has_hung_up(const struct pollfd *fds, size_t n, int listener)
{
        for (size_t i = 0; i < n; i++)
                if (fds[i].fd == listener)
                        return fds[i].revents & (POLLHUP | POLLERR | POLLNVAL);
        return false;
}

bool inlets_look(struct gate *gate, const struct pollfd *fds, size_t n)
{
        bool was_empty = gate->is_empty, is_empty = true;

        (void)pthread_mutex_lock(&gate->inlets_mutex);
        for (size_t i = 0; i < GATE_INLETS; i++) {
                struct inlet *inlet = &gate->inlets[i];

                if (inlet->listener < 0)
                        continue;
                if (has_hung_up(fds, n, inlet->listener))
                        inlet->is_empty = true;
                is_empty &= inlet->is_empty;
        }
        gate->is_empty = is_empty;
        (void)pthread_mutex_unlock(&gate->inlets_mutex);
        if (!is_empty || was_empty)
                return false;
        (void)eventfd_write(gate->over, 1);
        return true;
}

bool inlets_clear(struct gate *gate)
{
        bool is_left = false;

        for (size_t i = 0; i < GATE_INLETS; i++) {
                struct inlet *inlet = &gate->inlets[i];
                int listener = inlet->listener;

                if (listener < 0 || !inlet->is_empty)
                        continue;
                if (!pool_end(inlet)) {
                        is_left = true;
                        continue;
                }
                if (!i)
                        continue; /* the first stays where it was, for gate_wait */
                inlet->listener = -1;
                (void)close(listener);
        }
        return is_left;
}
