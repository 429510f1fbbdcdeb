/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suspends tenants and brings them back: acts on what suspension.h decides. The work is a helper's, one process per
 * way (daemon/checkpoint_helper.c); the loop starts it, reaps it, and kills it when its time is over. What the memory
 * of a suspended tenant was charged returns through its gate, which performs the calls that free it.
 *
 * The state is in the control block, so the next daemon finds it. Nothing waits.
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/process.h"
#include "gate/gate.h"
#include "gpu/checkpoint.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"
#include "daemon/state/suspend/by_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define NO_COPIES (600 * NSEC_PER_SEC) /* so long it is believed that copies cannot move a tenant */
#define SLOWEST (512 * MIB)            /* a second: what a move makes, at the least */
#define LIST_AGE (10 * NSEC_PER_SEC)   /* a shim writes its list each second; on a busy machine later */

_Static_assert((int)CHECKPOINT_PROCESSES >= (int)CONTROL_BLOCK_PROCESSES,
               "a helper takes all that the control block names");

static bytes held(const struct tenant *tenant)
{
        bytes sum = 0;

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                if (tenant_has(tenant, i))
                        sum += tenant_held(tenant, i);
        return sum;
}

/* ---- the helper ------------------------------------------------------------------------------------- */

enum {
        NAME = 40,
        FIXED_WORDS = 3,
};

static int helper_start(struct tenant *tenant, bool suspends)
{
        static char program[] = "sublet", verb[] = "checkpoint", out[] = "suspend", back[] = "resume";
        const struct control_suspension *saved = control_block_suspension(tenant->control);
        struct tenant_suspension *suspension = &tenant->suspension;
        char *argv[FIXED_WORDS + CONTROL_BLOCK_PROCESSES + 1] = { program, verb, suspends ? out : back };
        const struct control_began *began = control_block_began(tenant->control);
        char names[CONTROL_BLOCK_PROCESSES][NAME];
        int ends[2], r;

        for (size_t i = 0; i < saved->n && i < CONTROL_BLOCK_PROCESSES; i++) {
                (void)snprintf(names[i], NAME, "%d:%llu", (int)saved->processes[i],
                               began ? (unsigned long long)began->suspended[i] : 0);
                argv[FIXED_WORDS + i] = names[i];
        }
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        descriptors_settle(); /* K2 of process.h */
        r = process_spawn_self(argv, ends[1], STDERR_FILENO, &suspension->helper);
        closep(&ends[1]);
        if (r < 0) {
                closep(&ends[0]);
                suspension->helper = 0;
                return r;
        }
        suspension->output = ends[0];
        suspension->held = held(tenant);
        suspension->moves_at = clock_now();
        return 0;
}

/* Its one line, into text. One that says nothing has only brought back what failed before it: why is kept. */
static void helper_end(struct tenant_suspension *suspension)
{
        char line[sizeof(suspension->text)];
        ssize_t n = read(suspension->output, line, sizeof(line) - 1);

        line[n < 0 ? 0 : n] = '\0';
        line[strcspn(line, "\n")] = '\0';
        if (*line)
                (void)snprintf(suspension->text, sizeof(suspension->text), "%s", line);
        closep(&suspension->output);
        suspension->helper = 0;
}

/* ---- whose memory it is ------------------------------------------------------------------------------ */

/* The list of processes is up to a second old (shim/publish.c). It is new if it says so, or if it adds up to what the
 * ledger holds: some of that may be no process's. */
static bool is_listed(const struct tenant *tenant)
{
        const struct control_process *process = tenant->control->processes;
        bytes sum = 0;

        if (tenant->control->version >= 7 && tenant->control->listed_at > tenant->suspension.since)
                return true;
        for (size_t i = 0; i < CONTROL_BLOCK_PROCESSES && process[i].id; i++)
                sum += process[i].held;
        return sum == held(tenant);
}

/* Those with memory of a device. False: there are none. */
static bool note_processes(struct tenant *tenant)
{
        struct control_suspension *saved = control_block_suspension(tenant->control);
        const struct control_process *process = tenant->control->processes;
        struct control_began *began = control_block_began(tenant->control);
        uint32_t n = 0;

        for (size_t i = 0; i < CONTROL_BLOCK_PROCESSES && process[i].id; i++) {
                uint32_t k = 0;

                while (k < n && saved->processes[k] != process[i].id)
                        k++;
                if (k < n || !process[i].held)
                        continue;
                if (began)
                        began->suspended[n] = began->listed[i];
                saved->processes[n++] = process[i].id;
        }
        saved->n = n;
        return n;
}

/* ---- what follows ------------------------------------------------------------------------------------ */

static void emit(struct daemon *daemon, const struct tenant *tenant, int event)
{
        const struct tenant_suspension *suspension = &tenant->suspension;
        bytes now = held(tenant), moved = now > suspension->held ? now - suspension->held : suspension->held - now;
        char size[BYTES_TEXT];

        if (event == EVENT_SUSPENDED || event == EVENT_RESUMED)
                event_emit(daemon, event, tenant, -1, "%s in %.1f s, %s%s", bytes_format(moved, size),
                           (double)(clock_now() - suspension->since) / NSEC_PER_SEC, suspension->cause,
                           suspension->how);
        else if (event >= 0)
                event_emit(daemon, event, tenant, -1, "%s", suspension->text);
}

static void step(struct daemon *daemon, struct tenant *tenant, enum suspension_input input);

static bool is_for_others(const struct tenant *tenant)
{
        const struct control_waiting *waiting = control_block_waiting(tenant->control);

        return tenant->lease.swap && waiting && waiting->is_out;
}

/* What those that decide who sleeps, and who is on the device, learn of it. */
static void note_end(struct tenant *tenant, int event, bool was_for_others, bool by_copies)
{
        struct tenant_suspension *suspension = &tenant->suspension;
        bytes now = held(tenant), moved = now > suspension->held ? now - suspension->held : suspension->held - now;
        nsec at = clock_now();

        suspension->n_out += event == EVENT_SUSPENDED;
        suspension->n_in += event == EVENT_RESUMED;
        if (event == EVENT_SUSPENDED && by_copies)
                suspension->no_copies_until = 0;
        if (event == EVENT_RESUME_FAILED)
                sleeper_refused(&tenant->sleeper, at);
        else if (event == EVENT_SUSPEND_FAILED && !suspension->is_taken)
                sleeper_failed(&tenant->sleeper, at);
        else if (event == EVENT_RESUMED)
                sleeper_is_up(&tenant->sleeper, at);
        if (event == EVENT_RESUME_FAILED || (event == EVENT_SUSPEND_FAILED && was_for_others && !suspension->is_taken))
                swap_failed(tenant, event == EVENT_SUSPEND_FAILED);
        else if ((event == EVENT_SUSPENDED || event == EVENT_RESUMED) && suspension->moves_at)
                swap_moved(tenant, event == EVENT_SUSPENDED, by_copies, at - suspension->moves_at, moved);
        suspension->is_taken &= event < 0; /* until that way is over */
}

/* By the shim, or by a helper. Back it comes the way it went. */
static int way_start(struct daemon *daemon, struct tenant *tenant, bool suspends)
{
        struct tenant_suspension *suspension = &tenant->suspension;

        if (!(suspends ? by_shim_is_tried(daemon, tenant) && !suspension->has_no_copies : by_shim_is_so(tenant)))
                return helper_start(tenant, suspends);
        suspension->held = held(tenant);
        suspension->moves_at = clock_now();
        suspension->how[0] = '\0';
        return by_shim_start(daemon, tenant, suspends);
}

/* By checkpoint a process that is not listed would be left out, and the list is up to a second old. By copies it only
 * says whose memory it was. */
static bool must_wait(const struct daemon *daemon, struct tenant *tenant)
{
        const struct tenant_suspension *suspension = &tenant->suspension;
        bool by_copies = !suspension->has_no_copies && by_shim_is_tried(daemon, tenant);

        if (is_listed(tenant) || clock_now() - suspension->since >= LIST_AGE)
                return false;
        return !by_copies || !note_processes(tenant);
}

/* On the way out once the list of processes is as new as it must be, or gets. */
static void suspend_start(struct daemon *daemon, struct tenant *tenant)
{
        struct tenant_suspension *suspension = &tenant->suspension;
        bool suspends = suspension->state == SUSPENSION_SUSPENDING;
        int r = 0;

        suspension->is_waiting = suspends && must_wait(daemon, tenant);
        if (suspension->is_waiting)
                return;
        if (!suspends && !control_block_suspension(tenant->control)->n) {
                step(daemon, tenant, SUSPENSION_IS_DONE); /* the daemon before had not begun */
                return;
        }
        if (suspends && (note_processes(tenant) || tenant->lease.swap))
                swapped_note(tenant);
        if (suspends && !control_block_suspension(tenant->control)->n && tenant->lease.swap && !held(tenant)) {
                step(daemon, tenant, SUSPENSION_IS_DONE); /* its promise is wanted, and it uses nothing of it */
                return;
        }
        if (suspends && !control_block_suspension(tenant->control)->n)
                (void)snprintf(suspension->text, sizeof(suspension->text), "no process of it holds memory of a device");
        else if ((r = way_start(daemon, tenant, suspends)) == 0)
                return;
        else if (suspension->state == SUSPENSION_REVERTING) {
                suspension->is_waiting = true; /* nothing is lost yet: with the next tick */
                return;
        } else
                (void)snprintf(suspension->text, sizeof(suspension->text), "%s: %s",
                               by_shim_is_so(tenant) ? "asking its shim" : "starting a helper", strerror(-r));
        step(daemon, tenant, SUSPENSION_AS_BEFORE);
}

static void step(struct daemon *daemon, struct tenant *tenant, enum suspension_input input)
{
        struct suspension_move move = suspension_next(tenant->suspension.state, input);
        bool was_for_others = is_for_others(tenant), by_copies = by_shim_is_so(tenant);
        struct control_suspension *saved = control_block_suspension(tenant->control);

        if (move.act == SUSPENSION_DO_SUSPEND)
                saved->n = 0; /* until it is known which */
        if (move.act == SUSPENSION_DO_SUSPEND || move.act == SUSPENSION_DO_RESUME) {
                tenant->suspension.held = held(tenant);
                tenant->suspension.moves_at = 0;
                tenant->suspension.has_no_copies = false;
        }
        tenant->suspension.state = move.to;
        saved->state = move.to;
        if (move.to == SUSPENSION_RUNNING) {
                if (control_block_waiting(tenant->control))
                        control_block_waiting(tenant->control)->is_idle = 0;
                swap_keep(tenant); /* nothing of the way back is left */
                by_shim_end(daemon, tenant);
        }
        note_end(tenant, move.event, was_for_others, by_copies);
        emit(daemon, tenant, move.event);
        if (move.act == SUSPENSION_DO_SUSPEND || move.act == SUSPENSION_DO_RESUME) {
                tenant->suspension.since = clock_now();
                suspend_start(daemon, tenant);
        } else if (move.act == SUSPENSION_DO_END) {
                (void)shims_end(tenant);
        }
        daemon_changed(daemon);
}

static enum suspension_input input_of(int status)
{
        if (!WIFEXITED(status))
                return SUSPENSION_DIED;
        switch (WEXITSTATUS(status)) {
        case CHECKPOINT_DONE:
                return SUSPENSION_IS_DONE;
        case CHECKPOINT_AS_BEFORE:
                return SUSPENSION_AS_BEFORE;
        case CHECKPOINT_LOST:
                return SUSPENSION_IS_LOST;
        default: /* a library that it loaded has ended it */
                return SUSPENSION_DIED;
        }
}

void suspend_reap(struct daemon *daemon, pid_t process, int status)
{
        enum suspension_input input = input_of(status);

        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (t->suspension.helper != process)
                        continue;
                helper_end(&t->suspension);
                if (input == SUSPENSION_DIED)
                        (void)snprintf(t->suspension.text, sizeof(t->suspension.text),
                                       "the helper ended with status 0x%x after %.1f s", (unsigned int)status,
                                       (double)(clock_now() - t->suspension.since) / NSEC_PER_SEC);
                /* Without its gate nothing can be moved. That is why it failed, and may be heard of later. */
                if (input == SUSPENSION_IS_DONE || !shims_notice(daemon, t))
                        step(daemon, t, input);
                return;
        }
}

/* What its shim cannot move, the driver may. */
void suspend_moved(struct daemon *daemon, struct tenant *tenant, const json_t *body)
{
        struct tenant_suspension *suspension = &tenant->suspension;
        const char *outcome = message_text(body, "outcome", "lost"), *text = message_text(body, "text", "");

        if (!suspension->is_moving || (uint64_t)message_number(body, "serial", 0) != suspension->serial)
                return;
        suspension->is_moving = false;
        by_shim_how(body, suspension->how);
        if (*text)
                (void)snprintf(suspension->text, sizeof(suspension->text), "%s", text);
        if (!strcmp(outcome, "cannot"))
                suspension->no_copies_until = clock_now() + NO_COPIES;
        if (!strcmp(outcome, "cannot") && daemon->settings.suspend_by == SUSPEND_BY_AUTO &&
            suspension->state == SUSPENSION_SUSPENDING && !sleep_is_for_itself(tenant)) {
                by_shim_end(daemon, tenant);
                suspension->has_no_copies = true;
                suspend_start(daemon, tenant);
                return;
        }
        step(daemon, tenant, by_shim_outcome(outcome));
}

/* Each of its waits has an end: what has not ended by now is stuck in the driver. */
static nsec moving_most(const struct tenant *tenant)
{
        return (SUSPEND_SEC + (nsec)((tenant->suspension.held + tenant_swapped_all(tenant)) / SLOWEST)) * NSEC_PER_SEC;
}

static void moving_late(struct daemon *daemon, struct tenant *tenant)
{
        tenant->suspension.is_moving = false;
        (void)snprintf(tenant->suspension.text, sizeof(tenant->suspension.text), "its shim does not answer");
        step(daemon, tenant, SUSPENSION_IS_LOST);
}

void suspend_tick(struct daemon *daemon)
{
        nsec now = clock_now();

        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (t->suspension.is_waiting)
                        suspend_start(daemon, t);
                else if (t->suspension.helper && now - t->suspension.since > SUSPEND_SEC * NSEC_PER_SEC)
                        (void)kill(t->suspension.helper, SIGKILL);
                else if (t->suspension.is_moving && now - t->suspension.since > moving_most(t))
                        moving_late(daemon, t);
                swapped_tick(t, now);
        }
}

/* The next daemon finds what it was in the control block. */
void suspend_leave(struct tenant *tenant)
{
        tenant->suspension.is_waiting = tenant->suspension.is_moving = false;
        tenant->suspension.state = SUSPENSION_RUNNING; /* of a lease that outlives its programs */
        sleeper_is_kept(&tenant->sleeper);
        if (!tenant->suspension.helper)
                return;
        (void)kill(tenant->suspension.helper, SIGKILL);
        tenant->suspension.helper = 0;
        closep(&tenant->suspension.output);
}

/* ---- asking ------------------------------------------------------------------------------------------ */

void suspend_take(struct daemon *daemon, struct tenant *tenant)
{
        const struct control_suspension *saved = control_block_suspension(tenant->control);
        uint32_t state = saved ? saved->state : SUSPENSION_RUNNING;

        if (tenant->suspension.helper || tenant->suspension.is_waiting || tenant->suspension.is_moving ||
            state >= SUSPENSION_N_STATES)
                return; /* only its connection was lost */
        tenant->suspension.state = state;
        if (state == SUSPENSION_RUNNING)
                return;
        tenant->suspension.is_taken = state != SUSPENSION_SUSPENDED;
        sleep_take(tenant);
        (void)snprintf(tenant->suspension.text, sizeof(tenant->suspension.text),
                       "the daemon ended while it was on its way");
        step(daemon, tenant, SUSPENSION_TAKEN);
}

int suspend_check(const struct tenant *tenant, struct err *err)
{
        const char *name = tenant->lease.tenant;

        if (tenant->lease.enforcement == ENFORCEMENT_PRELOAD)
                return err_say(err, -ENOTSUP, "'%s' has no gate that would see what it gives back (plane preload)",
                               name);
        if (message_lease_is_client(&tenant->lease))
                return err_say(err, -ENOTSUP, "'%s' is a client of an MPS server, which the driver cannot suspend",
                               name);
        if (tenant->state != TENANT_RUNNING || tenant->is_kept)
                return err_say(err, -EBUSY, "'%s' is %s", name, tenant_state_name(tenant));
        if (!control_block_suspension(tenant->control))
                return err_say(err, -ENOTSUP, "the shim of '%s' is of an older release, which knows no suspending",
                               name);
        return 0;
}

void suspend_move(struct daemon *daemon, struct tenant *tenant, bool suspends, const char *cause)
{
        tenant->suspension.text[0] = '\0';
        (void)snprintf(tenant->suspension.cause, sizeof(tenant->suspension.cause), "%s", cause);
        step(daemon, tenant, suspends ? SUSPENSION_ASK_SUSPEND : SUSPENSION_ASK_RESUME);
}

int suspend_ask(struct daemon *daemon, struct tenant *tenant, bool suspends, uid_t user, struct err *err)
{
        enum suspension_input input = suspends ? SUSPENSION_ASK_SUSPEND : SUSPENSION_ASK_RESUME;
        struct suspension_move move = suspension_next(tenant->suspension.state, input);
        char cause[24];
        int r;

        if (move.act == SUSPENSION_REFUSE)
                return err_say(err, -EBUSY, "'%s' is %s: ask again when it is not", tenant->lease.tenant,
                               tenant_state_name(tenant));
        if (move.act == SUSPENSION_DO_NOTHING) {
                if (suspends)
                        sleep_keep(tenant);
                return 0;
        }
        if ((r = suspend_check(tenant, err)) < 0)
                return r;
        if (suspends && (r = swap_fit_suspended(&daemon->tenants, tenant, err)) < 0)
                return r;
        if (!suspends && tenant->lease.swap) {
                swap_ask(tenant);
                swap_look(daemon);
                return 0;
        }
        (void)snprintf(cause, sizeof(cause), "by user %u", user);
        suspend_move(daemon, tenant, suspends, cause);
        return 0;
}
