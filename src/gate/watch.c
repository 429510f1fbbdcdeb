/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher of a gate: ends of processes and listeners, threads whose call takes long, and what is due. */
#include "gate/books.h"
#include "gate/listen.h"
#include "gate/move/waiting.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

enum {
        PERIOD_MS = 1000,
        SOON_MS = 5, /* while something is being torn down, or for calls that wait */
        TICK_MS = 1, /* while calls come in */
        FORGET_MS = 100,
};

#define TELL_EACH (60 * NSEC_PER_SEC)

static int timeout_ms(struct gate *gate, bool is_settling)
{
        nsec audit = gate->mappings.due_at;

        if (audit) {
                nsec left = audit - clock_now();

                return left < 0 ? 0 : (int)(left / NSEC_PER_MSEC) + 1;
        }
        if (gate->is_ticking)
                return TICK_MS;
        return is_settling || gate->n_polled ? SOON_MS : gate->n_waiting ? FORGET_MS : PERIOD_MS;
}

/* *is_settling: something is left of what ended. */
static void reap_ended(struct gate *gate, bool *is_settling)
{
        pid_t ended;

        gate->n_sweeps++;
        while ((ended = processes_reap(&gate->processes))) {
                gate->ended_at = clock_now();
                *is_settling |= sweep_ended(gate, ended) || has_files(gate);
        }
        gate->n_sweeps--;
        gate_usage_changed(gate);
}

/* Often at first; then something waits in a socket, say, and may take long. */
static int settle_ms(const struct gate *gate, bool is_settling, nsec now)
{
        if (!is_settling)
                return PERIOD_MS;
        return now - gate->ended_at < 10 * SOON_MS * NSEC_PER_MSEC ? SOON_MS : 20 * SOON_MS;
}

/* What the gate has used for calls: a move is the operator's (move/move.h). */
static nsec used_for_calls(struct gate *gate)
{
        nsec used = clock_cpus();

        if (atomic_exchange(&gate->moving.has_worked, false) || gate->moving.is_at_work)
                gate->used_to_move += used - gate->used_before;
        gate->used_before = used;
        return used - gate->used_to_move;
}

static void count_budget(struct gate *gate, nsec now)
{
        gate->is_spent = budget_count(&gate->budget, now, used_for_calls(gate));
        if (!gate->is_spent || (gate->busy_told_at && now - gate->busy_told_at < TELL_EACH))
                return;
        gate->busy_told_at = now;
        gate_tell(gate, EVENT_GATE_BUSY, 0, "more than one processor for %d s", (int)(BUDGET_BURST / NSEC_PER_SEC));
}

/* Once a second: managed ranges come and go unseen. While something is left of what ended, more often. */
static void tick(struct gate *gate, bool *is_settling, nsec *done)
{
        nsec now = clock_now();

        count_budget(gate, now);
        if (now - gate->forgotten_at > FORGET_MS * NSEC_PER_MSEC) {
                processes_forget_threads(&gate->processes);
                gate->forgotten_at = now;
        }
        audit_figures(gate, now);
        if (loans_have_orphans(&gate->loans))
                settle_loans(gate);
        if (now - *done < settle_ms(gate, *is_settling || gate->swept.is_cut, now) * NSEC_PER_MSEC)
                return;
        if (*is_settling)
                *is_settling = gate_remains(gate);
        else if (has_files(gate)) {
                mappings_check(gate);
                (void)sweep_all_managed(gate);
        }
        /* Clients that a living process uses are no reason to ask again. */
        if (*is_settling && now - gate->ended_at > SWEEP_LATE)
                *is_settling = false;
        *done = now;
}

static void watch_readers(struct gate *gate)
{
        for (size_t i = 0; i < GATE_LISTENERS_MAX; i++) {
                struct notify_listener *listener = &gate->listeners[i];

                if (listener->fd < 0)
                        continue;
                if (waiting_look(listener))
                        reader_rouse(listener);
                (void)reader_watch(listener);
        }
}

void *gate_watch(void *context)
{
        struct gate *gate = context;
        bool is_settling = false, is_clearing = false;
        nsec done = clock_now();
        eventfd_t ignored;

        while (!gate->is_ending) {
                struct pollfd fds[2 + GATE_LISTENERS_MAX] = { { gate->processes.epoll, POLLIN, 0 },
                                                              { gate->wake, POLLIN, 0 } };
                size_t n_listeners = notify_listeners_poll(gate, fds + 2);
                int n = poll(fds, 2 + n_listeners, timeout_ms(gate, is_settling || is_clearing || gate->swept.is_cut));

                if (n < 0 && errno != EINTR)
                        break;
                if (fds[1].revents)
                        (void)eventfd_read(gate->wake, &ignored);
                reap_ended(gate, &is_settling);
                mappings_check_due(gate, clock_now());
                if (notify_listeners_check(gate, fds + 2, n > 0 ? n_listeners : 0))
                        is_settling = true;
                is_clearing = notify_listeners_clear(gate);
                watch_readers(gate);
                tick(gate, &is_settling, &done);
        }
        return NULL;
}
