/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suspends tenants that are idle, and wakes those that must not stay suspended: acts on what sleeper.h decides. What a
 * tenant does is seen in its control block: its launches, and its driver calls.
 */
#include "daemon/state/daemon.h"

#include "base/err.h"
#include "gate/gate.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"
#include "daemon/state/suspend/by_shim.h"

#include <errno.h>
#include <stdio.h>

#define SIGNS_AGE (5 * NSEC_PER_SEC) /* signs of work that were checked longer ago say nothing */

static void engines_see(struct control_block *control, unsigned int device, struct sleeper_view *view)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                const struct control_engine *on = control_block_engine(control, device, engine);

                if (!on)
                        continue;
                view->is_at_work |= on->n_pending || on->n_unseen;
                if (on->launched_at > view->launched_at)
                        view->launched_at = on->launched_at;
        }
}

/* A tenant whose rings cannot be read may be at work all the time. One that has no channel has none to read. */
void sleep_signs(const struct daemon *daemon, const struct tenant *tenant, struct sleeper_view *ret)
{
        nsec now = clock_now();
        struct sleeper_view view = { .now = now,
                                     .after = tenant->lease.sleep_after,
                                     .has_waker = sleep_has_waker(daemon, tenant),
                                     .n_calls = tenant->control->n_calls };

        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                const struct control_device *device = &tenant->control->devices[i];

                if (!tenant_has(tenant, i))
                        continue;
                view.is_at_work |= device->n_pending || !device->can_watch || device->checked_at < now - SIGNS_AGE;
                if (device->launched_at > view.launched_at)
                        view.launched_at = device->launched_at;
                engines_see(tenant->control, i, &view);
        }
        *ret = view;
}

/* One that has not begun yet has nothing that could be suspended. */
static bool holds_memory(const struct daemon *daemon, const struct tenant *tenant)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (tenant_has(tenant, i) && tenant_held(tenant, i))
                        return true;
        return false;
}

/* Once until it sleeps. */
static void stay(struct daemon *daemon, struct tenant *tenant, const char *why)
{
        sleeper_stays(&tenant->sleeper);
        if (tenant->is_sleepless_told)
                return;
        tenant->is_sleepless_told = true;
        event_emit(daemon, EVENT_NOT_PUT_TO_SLEEP, tenant, -1, "%s", why);
}

static void sleep_if_idle(struct daemon *daemon, struct tenant *tenant)
{
        struct sleeper_view view;
        struct err err = { 0 };
        char cause[64];

        if (!tenant->lease.sleep_after || !holds_memory(daemon, tenant) || suspend_check(tenant, &err) < 0)
                return;
        sleep_signs(daemon, tenant, &view);
        if (!sleeper_sleeps(&tenant->sleeper, &view))
                return;
        if (swap_fit_suspended(&daemon->tenants, tenant, &err) < 0) {
                stay(daemon, tenant, err.text);
                return;
        }
        tenant->is_sleepless_told = false;
        if (control_block_waiting(tenant->control))
                control_block_waiting(tenant->control)->is_idle = 1;
        (void)snprintf(cause, sizeof(cause), "idle for %.0f s",
                       (double)(view.now - tenant->sleeper.active_at) / NSEC_PER_SEC);
        suspend_move(daemon, tenant, true, cause);
}

static void wake_if_called(struct daemon *daemon, struct tenant *tenant)
{
        const struct control_waiting *waiting = control_block_waiting(tenant->control);
        struct sleeper_view view = { .now = clock_now(),
                                     .after = tenant->lease.sleep_after,
                                     .has_waker = sleep_has_waker(daemon, tenant),
                                     .is_called = waiting && waiting->n };
        char cause[64] = "nobody is there any more who would wake it";

        if (tenant->is_kept || !sleeper_wakes(&tenant->sleeper, &view) || swap_is_kept_out(tenant))
                return; /* of one that is kept nobody is there who could have called */
        if (tenant->lease.swap) {
                swap_ask(tenant);
                return;
        }
        if (view.is_called && !waiting->process)
                (void)snprintf(cause, sizeof(cause), "for work that it has put");
        else if (view.is_called)
                (void)snprintf(cause, sizeof(cause), "for a driver call of process %d", waiting->process);
        suspend_move(daemon, tenant, false, cause);
}

/* Whoever wakes it is given the time to come to this daemon, too. */
void sleep_take(struct tenant *tenant)
{
        const struct control_waiting *waiting = control_block_waiting(tenant->control);

        if (!waiting || !waiting->is_idle)
                return;
        sleeper_is_down(&tenant->sleeper, clock_now());
        sleep_waker(tenant);
}

void sleep_keep(struct tenant *tenant)
{
        if (control_block_waiting(tenant->control))
                control_block_waiting(tenant->control)->is_idle = 0;
        sleeper_is_kept(&tenant->sleeper);
        swap_keep(tenant);
}

void sleep_look(struct daemon *daemon)
{
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (t->state != TENANT_RUNNING || !t->control)
                        continue;
                if (t->suspension.state == SUSPENSION_RUNNING)
                        sleep_if_idle(daemon, t);
                else if (t->suspension.state == SUSPENSION_SUSPENDED)
                        wake_if_called(daemon, t);
        }
}

void sleep_waker(struct tenant *tenant)
{
        tenant->waker_until = clock_now() + SLEEP_WAKER_SEC * NSEC_PER_SEC;
}

/* By copies a program wakes itself. Whether it would be by copies: as it was the last time. */
bool sleep_has_waker(const struct daemon *daemon, const struct tenant *tenant)
{
        if (tenant->waker_until > clock_now())
                return true;
        if (tenant->suspension.state != SUSPENSION_RUNNING)
                return by_shim_is_so(tenant);
        return tenant->control && by_shim_is_tried(daemon, tenant) && clock_now() >= tenant->suspension.no_copies_until;
}

bool sleep_is_for_itself(const struct tenant *tenant)
{
        const struct control_waiting *waiting = control_block_waiting(tenant->control);

        return waiting && waiting->is_idle && tenant->waker_until <= clock_now();
}

int sleep_check(const struct message_lease *lease, struct err *err)
{
        if (!lease->sleep_after)
                return 0;
        if (lease->enforcement == ENFORCEMENT_PRELOAD || message_lease_is_client(lease))
                return err_say(err, -EINVAL,
                               "a tenant of --preload, --mode spatial or --group cannot be suspended: no sleep-after");
        if (lease->job[0])
                return err_say(err, -EINVAL,
                               "a tenant of a job waits for the others, and they for it: no sleep-after with --job");
        return 0;
}
