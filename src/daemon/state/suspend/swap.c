/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants with --swap: carries out what swapper.h decides, by the means of suspend.c. Such a tenant begins suspended,
 * with nothing, so that its first call that takes memory waits like one of a tenant that is to be woken (the shim says
 * so on the control block before it serves anybody).
 *
 * Nothing waits. What the next daemon must know is in the control block: the state, and whether the tenant is out for
 * others' sake (is_out). It begins all turns anew.
 */
#include "daemon/state/daemon.h"

#include "base/err.h"
#include "gate/gate.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"
#include "daemon/state/suspend/by_shim.h"

#include <errno.h>
#include <stdlib.h>

#define KEPT (60 * NSEC_PER_SEC) /* one that could not be suspended is left alone for so long, then for twice */
#define KEPT_MOST (3600 * NSEC_PER_SEC)
#define BUSY (1 * NSEC_PER_SEC)        /* who has worked within that is at work: who looks most recent is chance */
#define STUCK_TOLD (10 * NSEC_PER_SEC) /* so long it may be stuck before it is told */

/* What a way takes until it is known, about as an H100 did (docs/suspend.md): whatever the size, and for a GiB. */
static const struct way_guess {
        nsec least, a_gib;
} guesses[2][2] = {
        /* by checkpoint, by copies: out, back */
        { { NSEC_PER_SEC, NSEC_PER_SEC }, { NSEC_PER_SEC, 300 * NSEC_PER_MSEC } },
        { { 300 * NSEC_PER_MSEC, 80 * NSEC_PER_MSEC }, { 100 * NSEC_PER_MSEC, 30 * NSEC_PER_MSEC } },
};

static bool is_in(const struct tenant *tenant)
{
        return tenant->state == TENANT_RUNNING && tenant->suspension.state == SUSPENSION_RUNNING;
}

static bytes held(const struct daemon *daemon, const struct tenant *tenant)
{
        bytes sum = 0;

        for (unsigned int i = 0; i < daemon->n_devices; i++)
                sum += tenant_has(tenant, i) ? tenant_held(tenant, i) : 0;
        return sum;
}

/* ---- the view ---------------------------------------------------------------------------------------- */

/* What it did before it was out counts on: that it came in is no sign of work. */
static void see_in(struct daemon *daemon, struct tenant *tenant, nsec now)
{
        struct tenant_swap *swap = &tenant->swap;
        struct sleeper_view signs;

        sleep_signs(daemon, tenant, &signs);
        if (!swap->is_in) {
                swap->in_since = now;
                swap->n_calls = signs.n_calls;
                swap->worked_at = swap->worked_at ? swap->worked_at : now;
        }
        swap->is_in = true;
        swap->out_since = swap->waits_since = 0;
        if (signs.is_at_work || signs.n_calls != swap->n_calls)
                swap->worked_at = now;
        else if (signs.launched_at > swap->worked_at)
                swap->worked_at = signs.launched_at;
        swap->n_calls = signs.n_calls;
}

static void see_out(struct tenant *tenant, nsec now)
{
        const struct control_waiting *waiting = control_block_waiting(tenant->control);
        struct tenant_swap *swap = &tenant->swap;
        bool has_rested;

        swap->is_in = false;
        swap->out_since = swap->out_since ? swap->out_since : now;
        has_rested = waiting && waiting->is_out && control_block_suspension(tenant->control)->n &&
                     now - swap->out_since >= swap->rest;
        if (!swap->asked_at && !has_rested)
                swap->waits_since = 0;
        else if (!swap->waits_since)
                swap->waits_since = now;
}

static enum swapper_place place_of(const struct tenant *tenant)
{
        if (swap_is_out(tenant))
                return SWAPPER_OUT;
        switch (tenant->suspension.state) {
        case SUSPENSION_RUNNING:
                return SWAPPER_IN;
        case SUSPENSION_SUSPENDING:
                return SWAPPER_LEAVES;
        case SUSPENSION_RESUMING:
        case SUSPENSION_REVERTING:
                return SWAPPER_COMES;
        default: /* lost, or its shim is awaited: where it was, and on no way */
                return SWAPPER_IN;
        }
}

/* Of one that was not moved yet, if the latest that was went faster than the guess: for it is the machine that makes
 * them fast, and what makes them slow may be the tenant. */
static nsec as_others(const struct tenant_way *others, const struct way_guess *by, bytes size, nsec guess)
{
        nsec above = others->took > by->least ? others->took - by->least : 0, took;

        if (!others->took)
                return guess;
        took = by->least + (nsec)((double)above * (double)size / (double)others->moved);
        return took < guess ? took : guess;
}

/* What it took the last time, but for what is more than it had then; and not more than thrice what it is taken to be as
 * long as that is not known, for a tenant has its hand in how long it takes. by_copies: as it would go the first
 * time. */
static nsec way_cost(const struct daemon *daemon, const struct tenant_way *way, bytes size, bool by_copies,
                     bool is_back)
{
        bool copies = way->took ? way->by_copies : by_copies;
        const struct way_guess *by = &guesses[copies][is_back];
        nsec guess = by->least + (nsec)((double)size / GIB * (double)by->a_gib), known = way->took;

        if (!size)
                return 0;
        if (!way->took)
                known = as_others(&daemon->ways[copies][is_back], by, size, guess);
        else if (size > way->moved)
                known += (nsec)((double)(size - way->moved) / GIB * (double)by->a_gib);
        return known < 3 * guess ? known : 3 * guess;
}

nsec swap_move_cost(const struct daemon *daemon, const struct tenant *tenant, bytes size)
{
        bool by_copies = by_shim_is_tried(daemon, tenant);

        return way_cost(daemon, &tenant->swap.out, size, by_copies, false) +
               way_cost(daemon, &tenant->swap.back, size, by_copies, true);
}

static void row_fill(struct daemon *daemon, struct tenant *tenant, nsec now, struct swapper_tenant *ret)
{
        struct tenant_swap *swap = &tenant->swap;
        bytes size = held(daemon, tenant);
        struct err ignored = { 0 };

        ret->place = place_of(tenant);
        if (is_in(tenant))
                see_in(daemon, tenant, now);
        else if (ret->place == SWAPPER_OUT && tenant->state == TENANT_RUNNING)
                see_out(tenant, now);
        ret->share = tenant->share;
        ret->is_latency = tenant->lease.class == TURNS_LATENCY;
        ret->may_leave = is_in(tenant) && now >= swap->kept_until && suspend_check(tenant, &ignored) == 0;
        ret->waits = swap->waits_since && now >= tenant->sleeper.retry_at;
        ret->waits_since = swap->waits_since;
        ret->in_since = swap->in_since;
        ret->worked_at =
                now - swap->worked_at < BUSY ? now : swap->worked_at; /* X4: then who has been in for longest */
        ret->cost = swap_move_cost(daemon, tenant, size + tenant_swapped_all(tenant));
        ret->held = size;
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                ret->promised[i] = swap_promised(tenant, i);
                ret->left[i] = ret->place == SWAPPER_OUT ? swap_left(tenant, i) : 0;
        }
}

/* ---- what follows ------------------------------------------------------------------------------------ */

static void leave(struct daemon *daemon, struct tenant *tenant, nsec now)
{
        if (control_block_waiting(tenant->control))
                control_block_waiting(tenant->control)->is_out = 1;
        tenant->swap.rest = swapper_rest(now - tenant->swap.worked_at);
        suspend_move(daemon, tenant, true, "to make room for another tenant");
}

static const char *const whys[SWAPPER_N_WHYS] = {
        [SWAPPER_FOR_MOVES] = "others, which are on their way",
        [SWAPPER_FOR_TURNS] = "others, until their turns are over",
        [SWAPPER_FOR_OTHERS] = "others, which have waited for longer",
        [SWAPPER_FOR_HOST] = "host memory, for those that would have to leave (sublet daemon --swap)",
        [SWAPPER_FOR_NOBODY] = "others, none of which can be suspended now",
};

/* Once for each time that it is stuck. */
static void tell_stuck(struct daemon *daemon, struct tenant *tenant, nsec now)
{
        struct tenant_swap *swap = &tenant->swap;

        if (swap->why == SWAPPER_NOT_WAITING) {
                swap->stuck_since = 0;
                swap->is_stuck_told = false;
        } else if (swap->why != SWAPPER_FOR_HOST && swap->why != SWAPPER_FOR_NOBODY) {
                return; /* others pass it, or it waits for a turn meanwhile */
        } else if (!swap->stuck_since) {
                swap->stuck_since = now;
        } else if (!swap->is_stuck_told && now - swap->stuck_since >= STUCK_TOLD) {
                swap->is_stuck_told = true;
                event_emit(daemon, EVENT_ROOM_NOT_MADE, tenant, -1, "it waits for %s", whys[swap->why]);
        }
}

/* A tenant that comes or leaves is still there: a tenancy ends on its shim's word only. */
static void follow(struct daemon *daemon, const struct swapper_decision *decisions, nsec now)
{
        size_t i = 0;

        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                const struct swapper_decision *decision = &decisions[i];

                if (!tenant_swaps(t))
                        continue;
                i++;
                t->swap.why = decision->why;
                tell_stuck(daemon, t, now);
                if (decision->order == SWAPPER_LEAVE)
                        leave(daemon, t, now);
                else if (decision->order == SWAPPER_COME)
                        suspend_move(daemon, t, false, "as there is room");
        }
}

static size_t count(const struct daemon *daemon)
{
        size_t n = 0;

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                n += tenant_swaps(t);
        return n;
}

/* Without --swap leases of the daemon before go on as they did, and nothing bounds the host. */
static bytes host_free(const struct daemon *daemon)
{
        bytes used = swap_host_used(&daemon->tenants), swap = daemon->tenants.swap;

        if (!swap)
                return UINT64_MAX;
        return used < swap ? swap - used : 0;
}

void swap_look(struct daemon *daemon)
{
        size_t n = count(daemon), i = 0;
        struct swapper_tenant *rows = n ? calloc(n, sizeof(*rows)) : NULL;
        struct swapper_decision *decisions = n ? calloc(n, sizeof(*decisions)) : NULL;
        struct swapper_view view = { .now = clock_now(),
                                     .part = daemon->settings.swap_cost ? daemon->settings.swap_cost : TURNS_WHOLE,
                                     .host = host_free(daemon),
                                     .n_devices = daemon->n_devices,
                                     .tenants = rows,
                                     .n = n };

        if (rows && decisions) {
                allocations_keep(&daemon->allocations, &daemon->tenants, daemon->tenants.kept);
                for (unsigned int d = 0; d < daemon->n_devices; d++)
                        view.room[d] = swap_room(&daemon->tenants, d, NULL);
                for (struct tenant *t = daemon->tenants.first; t; t = t->next)
                        if (tenant_swaps(t))
                                row_fill(daemon, t, view.now, &rows[i++]);
                swapper_decide(&view, decisions);
                follow(daemon, decisions, view.now);
        }
        free(rows);
        free(decisions);
}

/* ---- what others say --------------------------------------------------------------------------------- */

void swap_ask(struct tenant *tenant)
{
        if (control_block_waiting(tenant->control))
                control_block_waiting(tenant->control)->is_out = 1;
        if (!tenant->swap.asked_at)
                tenant->swap.asked_at = clock_now();
}

void swap_keep(struct tenant *tenant)
{
        if (control_block_waiting(tenant->control))
                control_block_waiting(tenant->control)->is_out = 0;
        tenant->swap.asked_at = tenant->swap.waits_since = 0;
        tenant->swap.why = SWAPPER_NOT_WAITING;
}

bool swap_is_kept_out(const struct tenant *tenant)
{
        const struct control_waiting *waiting = control_block_waiting(tenant->control);

        return tenant->lease.swap && by_shim_is_so(tenant) && waiting && !waiting->is_out && !waiting->is_idle;
}

bool swap_is_asked(const struct tenant *tenant)
{
        return tenant->swap.asked_at && tenant->suspension.state == SUSPENSION_SUSPENDED;
}

void swap_moved(struct tenant *tenant, bool is_out, bool by_copies, nsec took, bytes moved)
{
        struct tenant_way *way = is_out ? &tenant->swap.out : &tenant->swap.back;

        if (is_out)
                tenant->swap.kept = 0;
        if (moved)
                *way = (struct tenant_way){ took, moved, by_copies };
        if (moved >= GIB)
                tenant->daemon->ways[by_copies][!is_out] = *way;
}

void swap_failed(struct tenant *tenant, bool is_out)
{
        struct tenant_swap *swap = &tenant->swap;

        if (!is_out) {
                swap->asked_at = 0; /* who asked is answered, and it waits on */
                return;
        }
        swap->kept = !swap->kept ? KEPT : swap->kept < KEPT_MOST / 2 ? 2 * swap->kept : KEPT_MOST;
        swap->kept_until = clock_now() + swap->kept;
}

const char *swap_waits_for(const struct tenant *tenant)
{
        return tenant->suspension.state == SUSPENSION_SUSPENDED ? whys[tenant->swap.why] : NULL;
}

int swap_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err)
{
        if (!lease->swap)
                return 0;
        if (!daemon->tenants.swap)
                return err_say(err, -EINVAL,
                               "this daemon has no host memory for --swap: leave it out, or start the daemon with "
                               "'sublet daemon --swap SIZE'");
        if (lease->enforcement != ENFORCEMENT_GATE || message_lease_is_client(lease) || message_lease_is_mig(lease))
                return err_say(
                        err, -EINVAL,
                        "a tenant of --preload, of a group, or of --mode spatial or mig, cannot share the device by "
                        "suspending: leave --swap out");
        if (lease->job[0])
                return err_say(err, -EINVAL,
                               "a tenant of a job waits for the others, and they for it: no --swap with --job");
        return swap_fit_bound(lease, err);
}
