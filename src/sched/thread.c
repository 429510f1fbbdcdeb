/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread: reads the meter and the control blocks, asks together_decide, carries out the orders, sleeps. It sleeps
 * until the next call is due or until it is woken, and never longer than a tick, so that the figures stay fresh.
 */
#include "sched/inside.h"

#include "sched/together.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_MIN (100 * NSEC_PER_USEC) /* at most one pass in that time, whatever the policy says */
#define WATCH_MIN NSEC_PER_MSEC         /* between two checks of a tenant's rings: 8 us of a shim each */
#define WATCH_EACH (NSEC_PER_MSEC / 4)  /* more, for each tenant: all checks together stay below 4 % of a core */
#define LOOK (2 * NSEC_PER_MSEC)        /* at the waits of those with a goal, while they launch */
#define LATE_AGAIN (60 * NSEC_PER_SEC)  /* until a tenant's goals are said to be missed again */
#define WATCH_ALONE (2 * NSEC_PER_MSEC) /* of a tenant alone: idle time is not billed */

/* ---- the meter ------------------------------------------------------------------------------- */

static void note_lost(struct sched *sched, uint64_t lost, nsec now)
{
        struct trace_span span = { .from = sched->state.metered_until,
                                   .until = now,
                                   .kind = TRACE_LOST,
                                   .detail = lost > UINT32_MAX ? UINT32_MAX : (uint32_t)lost };

        if (!lost)
                return;
        sched->state.n_lost += lost;
        trace_put(sched->trace, &span);
        sched_event_put(sched, SCHED_METER_LOST, 0, (int64_t)lost);
}

/* FLUSH takes 4 us, and what the device wrote before it is there after it (docs/time.md). False: the device is lost. */
static bool read_meter(struct sched *sched)
{
        nsec before = clock_now();
        bool is_first = true;
        uint64_t lost;
        int n;

        do {
                n = sched->meter ? meter_read(sched->meter, is_first, sched->records, SCHED_RECORDS, &lost) : 0;
                if (n < 0)
                        return n != -ENODEV;
                if (sched->meter) {
                        LOCKED(&sched->lock);
                        note_lost(sched, lost, before);
                        tally_records(sched, sched->records, (size_t)n);
                }
                is_first = false;
        } while (n == SCHED_RECORDS);
        LOCKED(&sched->lock);
        tally_until(sched, before);
        return true;
}

/* ---- the view -------------------------------------------------------------------------------- */

static nsec watch_for(const struct sched *sched)
{
        nsec watch = sched->settings.watch;

        if (watch)
                return watch < 0 ? 0 : watch;
        if (sched->n_tenants < 2)
                return WATCH_ALONE;
        watch = (nsec)sched->n_tenants * WATCH_EACH;
        return watch > WATCH_MIN ? watch : WATCH_MIN;
}

static void ask_to_watch(struct sched_entity *tenant, nsec watch)
{
        if (tenant->device->watch == watch)
                return;
        tenant->device->watch = watch;
        control_block_notify(tenant->control);
}

static enum turns_work work_of(const struct sched_entity *tenant)
{
        if (!tenant->device->can_watch)
                return TURNS_WORK_UNKNOWN;
        return tenant->device->n_pending ? TURNS_WORK_PENDING : TURNS_WORK_NONE;
}

static void view_tenant(struct sched *sched, struct sched_entity *tenant, struct turns_tenant *ret)
{
        struct control_device *device = tenant->device;
        nsec watched_at;

        if (device->is_reenabled && !tenant->was_reenabled &&
            tenant->is_disabled) { /* its shim took the daemon for dead */
                tenant->is_disabled = tenant->is_retired = false;
                tenant->must_enable = true; /* it takes up again what the control block says */
                stall_expect(tenant);
                tenant->off_since = 0;
        }
        if (device->is_reenabled && !tenant->was_reenabled)
                engines_note_enabled(tenant);
        if (device->is_reenabled)
                tenant->is_doubted = true; /* its shim disables them, too, when it takes up the desired state */
        tenant->was_reenabled = device->is_reenabled;
        tally_channels(sched, tenant);
        watched_at = device->checked_at; /* read before what it is the time of */
        *ret = (struct turns_tenant){ .id = tenant->id,
                                      .gang = tenant->gang,
                                      .team = tenant->team ? tenant->team->id : 0,
                                      .share = tenant->share,
                                      .cap = tenant->cap,
                                      .class = tenant->class,
                                      .goal = tenant->goal,
                                      .used = tenant->used,
                                      .started_at = tenant->started_at,
                                      .stopped_at = tenant->stopped_at,
                                      .n_starts = tenant->n_turns,
                                      .is_resident = sched->is_occupied && sched->resident == tenant,
                                      .n_groups = tenant->channels.n_groups,
                                      .work = work_of(tenant),
                                      .launched_at = device->launched_at,
                                      .watched_at = watched_at };
}

/* For display, and for entitlement: the policy judges by itself, and more closely. */
static bool does_want(const struct turns_tenant *seen, const struct sched_entity *tenant, nsec now)
{
        if (seen->is_resident || (seen->work == TURNS_WORK_PENDING && !tenant->is_contradicted))
                return true;
        if (tenant->is_contradicted)
                return false;
        if (now - seen->launched_at < SCHED_TICK && seen->launched_at)
                return true;
        return tenant->is_disabled && tenant->wants; /* while disabled it cannot show work */
}

/* The shares of tenants that want the device divide the time that has passed. */
static void entitle(struct sched *sched, nsec span)
{
        nsec sum = 0;

        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->wants)
                        sum += sched->tenants[i]->share;
        for (size_t i = 0; i < sched->n_tenants && sum; i++) {
                struct sched_entity *tenant = sched->tenants[i];
                nsec most = span * tenant->cap / TURNS_WHOLE, due = span * tenant->share / sum;

                if (tenant->wants)
                        tenant->entitled += due < most ? due : most;
        }
}

/* What shims wait for is whoever controls their channels, and that is this thread: the daemon's loop has no real-time
 * priority, and may be late on a machine that others keep busy. 0 is theirs: there is no daemon, or none yet. */
static void heartbeat_go_on(struct control_block *control, nsec now)
{
        nsec before = control->heartbeat;

        if (before && before < now)
                (void)atomic_compare_exchange_strong(&control->heartbeat, &before, now);
}

static size_t view_build(struct sched *sched, nsec now)
{
        nsec watch = watch_for(sched);

        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                heartbeat_go_on(tenant->control, now);
                ask_to_watch(tenant, watch);
                view_tenant(sched, tenant, &sched->view[i]);
                if (control_block_is_held(tenant->control)) {
                        sched->view[i].work = TURNS_WORK_NONE;
                        sched->view[i].launched_at = 0;
                }
                tenant->wants = does_want(&sched->view[i], tenant, now);
        }
        if (sched->state.turned_at)
                entitle(sched, now - sched->state.turned_at);
        return sched->n_tenants;
}

/* ---- the loop ---------------------------------------------------------------------------------- */

/* What the tenants' rings say counts as far as the meter does not contradict it. */
static void claims_note(struct sched *sched)
{
        for (size_t i = 0; i < sched->n_tenants; i++) {
                size_t at = sched->teams.entity_of[i];
                enum turns_work work = turns_work(sched->turns, at);

                sched->tenants[i]->is_contradicted = work != sched->teams.tenants[at].work;
                if (sched->tenants[i]->is_contradicted)
                        sched->view[i].work = work;
        }
}

/* What those with a goal have waited for. Returns when to look again. */
static nsec waits_watch(struct sched *sched, nsec now)
{
        uint64_t resident = sched->is_occupied && sched->resident ? sched->resident->id : 0;
        nsec until = INT64_MAX;

        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                if (!tenant->goal)
                        continue;
                if (waits_look(&tenant->waits, &sched->view[i], resident, now,
                               turns_step(sched->turns, sched->teams.entity_of[i])) &&
                    (!tenant->late_said_at || now - tenant->late_said_at >= LATE_AGAIN)) {
                        tenant->late_said_at = now;
                        sched_event_put(sched, SCHED_LATE, tenant->id, tenant->waits.latest_late / NSEC_PER_USEC);
                }
                if (now - sched->view[i].launched_at < SCHED_TICK)
                        until = now + LOOK;
        }
        return until;
}

/* Gives each tenant its order; returns when to do it again. */
static nsec orders_decide(struct sched *sched, nsec now)
{
        LOCKED(&sched->lock);
        struct turns_view view = { .now = now,
                                   .metered_until = sched->state.metered_until,
                                   .tenants = sched->view,
                                   .has_unmanaged = sched->is_occupied && !sched->resident && !sched->team };
        nsec until, engines_until, quiet_until, waits_until;

        view.n_tenants = view_build(sched, now);
        teams_view(sched, &view);
        until = together_decide(sched, &sched->teams.view, sched->team_orders);
        teams_unfold(&sched->teams, sched->team_orders, sched->orders);
        for (size_t i = 0; i < sched->n_tenants; i++)
                sched->tenants[i]->order = control_block_is_held(sched->tenants[i]->control) ?
                                                   (struct turns_order){ .is_disabled = true } :
                                                   sched->orders[i];
        claims_note(sched);
        waits_until = waits_watch(sched, now);
        until = waits_until < until ? waits_until : until;
        engines_until = engines_decide(sched, now);
        until = engines_until < until ? engines_until : until;
        quiet_until = quiet_next(sched, now);
        until = quiet_until < until ? quiet_until : until;
        if (now - sched->ticked_at >= SCHED_TICK)
                sched->state.cpu = clock_cpu();
        tally_second(sched, now);
        sched->state.turned_at = now;
        return until;
}

static bool is_over(struct sched *sched)
{
        LOCKED(&sched->lock);

        return sched->is_over;
}

static void sleep_until(const struct sched *sched, nsec until)
{
        struct pollfd poll = { .fd = sched->wake, .events = POLLIN };
        nsec now = clock_now(), span = until - now;
        struct timespec timeout;
        uint64_t ignored;

        span = span < SLEEP_MIN ? SLEEP_MIN : span > SCHED_TICK ? SCHED_TICK : span;
        timeout = (struct timespec){ span / NSEC_PER_SEC, span % NSEC_PER_SEC };
        if (ppoll(&poll, 1, &timeout, NULL) > 0)
                (void)!read(sched->wake, &ignored, sizeof(ignored));
}

/* Real-time priority where it is permitted: turns end in time also on a busy machine. */
static void be_punctual(void)
{
        struct sched_param param = { .sched_priority = 1 };

        (void)prctl(PR_SET_NAME, "sublet-pace");
        (void)prctl(PR_SET_TIMERSLACK, 1000UL);
        (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
}

void *sched_run(void *context)
{
        struct sched *sched = context;
        nsec until, now;

        be_punctual();
        while (!is_over(sched)) {
                if (sched->state.is_lost) {
                        sleep_until(sched, INT64_MAX);
                        continue;
                }
                if (!read_meter(sched)) {
                        sched_device_lost(sched);
                        continue;
                }
                now = clock_now();
                until = orders_decide(sched, now);
                if (orders_apply(sched, now))
                        sleep_until(sched, until);
                else
                        sched_device_lost(sched);
        }
        together_leave(sched);
        orders_end(sched);
        return NULL;
}
