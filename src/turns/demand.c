/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entities want the device, and how much. The meter answers most of it:
 *
 *      D1  An always-on entity that uses, or waits for, more than its share becomes time-sliced: account.c keeps the
 *          debt.
 *          Of those whose launches can be seen, bursts.c says what is more than a share;
 *      D2  A holder that the device has not switched to since its turn began has no work: the device does not switch to
 *          a channel group without work, and switches at once to one that was preempted. So an entity that became idle
 *          is found at its next turn, with the meter alone.
 *      D3  A holder may become idle within its turn. To find out, the next time-sliced entity is enabled beside it: a
 *          probe. A holder with work is back after a slice of the other; one that is not back is idle. A probe costs
 *          two switches, so there must be a reason: no launch was seen for GAP; or, where launches cannot be seen, the
 *          end of a turn is near. The pauses between probes grow as long as the holder is found busy.
 *
 *      D4  Short rounds have no time for a probe. There a holder whose steps are known to be shorter than GAP, and that
 *          has not launched for that long, is idle. So is one that takes turns alone, when a look finds it idle.
 *
 * Of an entity in a gang only D1 is asked here, and gangs.c does the rest.
 *
 * Gaps shorter than GAP are never lent: that costs more than it gives (docs/time.md).
 */
#include "turns/inside.h"

#define GAP (3 * NSEC_PER_MSEC)
#define PROBE_SPAN (6 * NSEC_PER_MSEC) /* some slices of both */
#define PROBE_MAX (60 * NSEC_PER_MSEC)
#define PROBE_EVERY (50 * NSEC_PER_MSEC)
#define PROBE_PAUSE_MIN (200 * NSEC_PER_MSEC)
#define PROBE_PAUSE_MAX (3200 * NSEC_PER_MSEC)

/* ---- always-on and time-sliced -------------------------------------------------------------- */

void demand_allow(struct turns *turns, const struct turns_view *view)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                if (view->tenants[i].class == TURNS_LATENCY)
                        entity->allowance = nsec_max(part(100 * NSEC_PER_MSEC, entity->share), 2 * NSEC_PER_MSEC);
                else
                        entity->allowance = nsec_max(part(turns->period, entity->share) / 2, NSEC_PER_MSEC);
                bursts_allow(turns, entity, &view->tenants[i]);
        }
}

void demand_time_slice(struct entity *entity, bool is_latency)
{
        entity->is_time_sliced = true;
        entity->has_turn = false;
        entity->saturated_for = 0;
        if (is_latency) /* until it has left as much of its share unused */
                entity->debt = 2 * entity->allowance;
        entity->probe_at = entity->probe_pause = 0;
}

static void time_slice_end(struct turns *turns, int entity)
{
        struct entity *leaves = &turns->entities[entity];

        leaves->is_time_sliced = leaves->has_turn = false;
        leaves->debt = nsec_min(nsec_max(-leaves->owed, 0), leaves->allowance);
        leaves->owed = 0;
        leaves->saturated_for = bursts_longest(leaves) - BURST_MAX; /* bursts.c, B3 */
        if (turns->holder == entity)
                turns->holder = NOBODY;
}

static bool is_busy(const struct entity *entity, const struct turns_tenant *tenant)
{
        return tenant->is_resident || entity->n_new_starts || entity->spent > 0;
}

bool demand_wants_more(const struct entity *entity, bool is_latency)
{
        return entity->debt > entity->allowance || (!is_latency && entity->saturated_for > bursts_longest(entity));
}

/* One that would have all there is at once again, and be taken off for it, is slowed instead: it goes on taking
 * turns. */
static bool wants_on(const struct turns *turns, const struct turns_view *view, int entity)
{
        return view->tenants[entity].work != TURNS_WORK_UNKNOWN && !bursts_is_idle(turns, view, entity);
}

void demand_join(struct turns *turns, const struct turns_view *view)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];
                bool is_latency = view->tenants[i].class == TURNS_LATENCY;

                if (entity->gang_state != TURNS_GANG_NONE)
                        continue;
                if (!entity->is_time_sliced && demand_wants_more(entity, is_latency)) {
                        entity->owed = nsec_max(-nsec_max(entity->debt, entity->burnt), -turns->period);
                        demand_time_slice(entity, is_latency);
                } else if (entity->is_time_sliced && is_latency && !entity->debt && !wants_on(turns, view, (int)i))
                        time_slice_end(turns, (int)i);
                else if (!entity->is_time_sliced && is_busy(entity, &view->tenants[i]))
                        wake_at(turns, turns->now + nsec_max(entity->allowance - entity->debt, 2 * NSEC_PER_MSEC));
        }
}

/* How long an entity's work may wait for the slices of all that work beside it. */
nsec demand_beside(const struct turns *turns, const struct turns_view *view, int entity)
{
        nsec sum = 0;

        for (int i = 0; i < (int)turns->n; i++)
                if (i != entity && turns->entities[i].is_enabled && is_busy(&turns->entities[i], &view->tenants[i]))
                        sum += slices_of(&turns->entities[i]);
        return sum;
}

/* ---- the holder ------------------------------------------------------------------------------ */

static nsec switched_to_by(const struct turns *turns, const struct turns_view *view)
{
        return turns->hold_from + (is_short_round(turns) ? SWITCHED_TO_SHORT : SWITCHED_TO_MAX) +
               demand_beside(turns, view, turns->holder);
}

/* A short turn may be over before D2 has an answer; an idle holder would have its turns for ever. */
bool demand_is_open(const struct turns *turns, const struct turns_view *view)
{
        nsec until;

        if (!is_short_round(turns) || turns->is_switched_to || turns->now - turns->metered_until > LATE)
                return false;
        until = switched_to_by(turns, view);
        return turns->metered_until < until && turns->now < until + LATE;
}

/* D2. True also while the meter cannot say yet. */
static bool was_switched_to(struct turns *turns, const struct turns_view *view)
{
        const struct turns_tenant *tenant = &view->tenants[turns->holder];
        const struct entity *entity = &turns->entities[turns->holder];
        nsec until = switched_to_by(turns, view);

        if (entity->is_contradicted)
                return false;
        if (turns->is_switched_to)
                return true;
        if (tenant->is_resident || tenant->started_at >= turns->hold_from || entity->work == TURNS_WORK_PENDING) {
                turns->is_switched_to = entity->work != TURNS_WORK_PENDING;
                return true;
        }
        if (turns->metered_until >= until)
                return false;
        wake_at(turns, until > turns->now ? until : turns->now + NSEC_PER_MSEC);
        return true;
}

/* Whether a probe is worth it. A holder that the latest probe found busy is probed at the end of its turn only, where
 * half of the probe is the next one's time anyway. */
static bool is_quiet(struct turns *turns, const struct turns_tenant *tenant)
{
        nsec end = turns->hold_until - PROBE_SPAN / 2 - NSEC_PER_MSEC / 2;
        bool is_known = tenant->work != TURNS_WORK_UNKNOWN;

        if (is_known && (tenant->work == TURNS_WORK_PENDING || turns->now - tenant->launched_at < GAP)) {
                wake_at(turns, turns->now + GAP);
                return false;
        }
        if ((is_known && !turns->entities[turns->holder].probe_pause) || turns->now >= end)
                return true;
        wake_at(turns, end);
        return false;
}

/* D4 */
static bool is_idle_in_short_round(struct turns *turns, const struct turns_tenant *tenant)
{
        const struct entity *entity = &turns->entities[turns->holder];
        nsec since = nsec_max(nsec_max(tenant->launched_at, tenant->started_at), turns->hold_from);

        if (!is_short_round(turns) || !entity->has_step || 2 * entity->half_step > GAP - NSEC_PER_MSEC ||
            tenant->work != TURNS_WORK_NONE || turns->now - turns->metered_until > LATE)
                return false;
        wake_at(turns, since + GAP);
        return turns->now - since >= GAP;
}

static void probe_begin(struct turns *turns, const struct turns_tenant *tenant)
{
        const struct entity *entity = &turns->entities[turns->holder];
        int next = round_robin_after(turns, turns->holder);

        if (next == NOBODY)
                next = round_robin_other(turns, turns->holder);
        if (next == NOBODY ||
            turns->now < nsec_max(turns->hold_from + SWITCHED_TO_MAX, nsec_max(entity->probe_at, turns->probe_after)) ||
            turns->now - turns->metered_until > LATE || !is_quiet(turns, tenant))
                return;
        turns->probe = (struct probe){
                .is_running = true,
                .next = next,
                .from = turns->now,
                .used = tenant->used,
                .wait = slices_of(&turns->entities[next]),
                .lent = turns->entities[next].counted,
                .n_starts = entity->n_starts,
        };
        account_hold(turns, NOBODY);
}

enum verdict {
        PROBE_OPEN,
        PROBE_BUSY,
        PROBE_IDLE,
        PROBE_NEXT_IDLE,
};

static enum verdict probe_verdict(const struct turns *turns, const struct turns_view *view)
{
        const struct turns_tenant *holder = &view->tenants[turns->holder], *next = &view->tenants[turns->probe.next];
        nsec from = turns->probe.from, passed = turns->metered_until - from;
        nsec had = holder->used - turns->probe.used;
        nsec wait = turns->probe.wait + SWITCH;
        bool is_held_back = turns->entities[turns->probe.next].work == TURNS_WORK_PENDING; /* by slices */
        nsec waited = (nsec)(turns->entities[turns->holder].n_starts - turns->probe.n_starts) * wait;

        if (turns->now - from > PROBE_MAX)
                return PROBE_BUSY;
        if (passed < nsec_max(PROBE_SPAN, 4 * wait))
                return PROBE_OPEN;
        if (next->started_at < from && !next->is_resident)
                return is_held_back ? PROBE_BUSY : PROBE_NEXT_IDLE;
        return had + waited > passed / 3 * 2 ? PROBE_BUSY : PROBE_IDLE;
}

static void probe_end(struct turns *turns, enum verdict verdict)
{
        struct entity *entity = &turns->entities[turns->holder];
        int holder = turns->holder, next = turns->probe.next;

        turns->probe.is_running = false;
        turns->probe_after = turns->now + PROBE_EVERY;
        if (verdict == PROBE_NEXT_IDLE) {
                time_slice_end(turns, next);
        } else if (verdict == PROBE_IDLE) {
                time_slice_end(turns, holder);
                round_robin_give(turns, next, turns->now);
                return;
        } else {
                entity->probe_pause = nsec_min(nsec_max(2 * entity->probe_pause, PROBE_PAUSE_MIN), PROBE_PAUSE_MAX);
                entity->probe_at = turns->now + entity->probe_pause;
        }
        if (turns->now >= turns->hold_until)
                return;
        /* within its turn: what the next one used is taken from its own turn, not from the holder's */
        turns->hold_until += turns->entities[next].counted - turns->probe.lent;
        turns->entities[next].turn -= turns->entities[next].counted - turns->probe.lent;
        account_hold(turns, holder);
}

void demand_watch(struct turns *turns, const struct turns_view *view)
{
        enum verdict verdict;

        if (turns->holder == NOBODY)
                return;
        if (turns->probe.is_running) {
                turns->probe.wait = nsec_max(turns->probe.wait, demand_beside(turns, view, turns->holder));
                verdict = probe_verdict(turns, view);
                wake_at(turns, turns->now + NSEC_PER_MSEC);
                if (verdict != PROBE_OPEN)
                        probe_end(turns, verdict);
                return;
        }
        if (!was_switched_to(turns, view)) {
                account_turn_end(turns);
                time_slice_end(turns, turns->holder);
                return;
        }
        if (is_idle_in_short_round(turns, &view->tenants[turns->holder]) ||
            (turns->n_time_sliced == 1 && bursts_is_idle(turns, view, turns->holder))) {
                time_slice_end(turns, turns->holder);
                return;
        }
        probe_begin(turns, &view->tenants[turns->holder]);
        if (turns->probe.is_running)
                wake_at(turns, turns->now + NSEC_PER_MSEC);
}
