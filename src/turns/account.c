/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounts: what each entity has used, what it is owed and what it owes.
 *
 * The meter is behind by some milliseconds, on some releases by a second. Time that is not metered yet is predicted:
 * the holder of that time used it. When the meter catches up, the difference is in `spent` (which may be negative), so
 * a wrong prediction is corrected and never counted twice.
 *
 *      A1  A turn is charged to its holder whether it used it or not: what nobody else had of it was its own to use,
 *          and is not owed to it. Else one that holds turns without work would be owed all of them, and take the device
 *          in one go later.
 *      A2  What always-on entities have of a turn is not charged to the holder as far as it is their share: they come
 *          when they want. More is: one that has nothing to do stays on the device until another comes, and a holder
 *          with work would have come.
 *
 *      Neither counts for an entity whose cap is below its share, which is owed little, nor for a turn in which its cap
 *      took the holder off, nor where launches cannot be seen: it has no rings to lie with, and demand.c finds it idle
 *      by the meter.
 */
#include "turns/inside.h"

#include <string.h>

#define HANDED_OVER (2 * NSEC_PER_MSEC)   /* of a turn, at its ends: calls and a switch */
#define HANDED_OVER_SHORT NSEC_PER_MSEC   /* the same, in short rounds */
#define VACANT_MOST (400 * NSEC_PER_USEC) /* nobody was on the device for so long at a handover, at most */

/* Adds what holders used between `from` and now. */
static void predict_use(struct turns *turns, nsec from)
{
        nsec until = turns->now;

        for (unsigned int i = turns->n_holds; i-- > 0 && until > from;) {
                const struct hold *hold = &turns->holds[i];
                nsec since = nsec_max(hold->from, from);

                if (hold->entity != NOBODY && until > since)
                        turns->entities[hold->entity].used += until - since;
                until = nsec_min(until, hold->from);
        }
}

static void note_starts(struct entity *entity, const struct turns_tenant *tenant)
{
        if (tenant->n_starts > entity->n_starts)
                entity->n_new_starts = (unsigned int)(tenant->n_starts - entity->n_starts);
        else
                entity->n_new_starts = tenant->started_at > entity->started_at;
        entity->n_starts = tenant->n_starts;
        entity->started_at = nsec_max(entity->started_at, tenant->started_at);
}

/* Of one call. */
struct turn_sums {
        nsec spent;
        nsec slices; /* of the entities that were on the device */
};

/* How long an always-on entity may have waited: at each start, for a slice of every other that was on the device. */
static nsec waited(const struct turns *turns, const struct entity *entity, const struct turn_sums *sums)
{
        nsec passed = turns->now - turns->before, waited;

        if (entity->is_time_sliced || sums->spent <= entity->spent)
                return 0;
        waited = entity->n_new_starts * (sums->slices - (entity->n_new_starts ? slices_of(entity) : 0) + SWITCH);
        return nsec_min(waited, nsec_max(passed - entity->spent, 0));
}

/* An always-on entity is charged for use beyond its share, and for waiting: one that the holder's slices hold back
 * looks as if it wanted little. */
static void account_debt(struct turns *turns, struct entity *entity, const struct turn_sums *sums)
{
        nsec passed = turns->now - turns->before, wanted = entity->spent + waited(turns, entity, sums);

        if (sums->spent > entity->spent && wanted > passed / 10 * 9)
                entity->saturated_for += passed;
        else if (passed > 0)
                entity->saturated_for = 0;
        entity->debt += wanted - part(passed, entity->share);
        entity->debt = nsec_min(nsec_max(entity->debt, 0), 2 * entity->allowance);
}

/* Strict: what is missing of the share itself is owed. Shares that are not used are lost. */
static void account_promised(struct turns *turns)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                entity->owed += part(turns->now - turns->before, entity->share) - entity->spent;
                entity->owed = nsec_min(nsec_max(entity->owed, -turns->period), turns->period);
        }
}

static void account_owed(struct turns *turns)
{
        nsec spent = 0, weights = 0, bound = turns->period;

        for (size_t i = 0; i < turns->n; i++)
                if (takes_turns_here(&turns->entities[i])) {
                        spent += turns->entities[i].spent;
                        weights += turns->entities[i].weight;
                }
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                if (!takes_turns_here(entity) || !weights)
                        continue;
                entity->owed += spent * (nsec)entity->weight / weights - entity->spent;
                entity->owed = nsec_min(nsec_max(entity->owed, -bound), bound);
        }
}

void account_update(struct turns *turns, const struct turns_view *view)
{
        nsec until = nsec_min(view->metered_until, turns->now);
        struct meter_span span = { .from = turns->metered_until, .vacant = until - turns->metered_until };
        struct turn_sums sums = { 0 };

        turns->metered_until = until;
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                entity->spent = entity->used; /* of the call before */
                span.vacant -= nsec_max(view->tenants[i].used - entity->counted, 0);
                entity->counted = nsec_max(view->tenants[i].used, entity->counted);
                entity->used = entity->counted;
                note_starts(entity, &view->tenants[i]);
                entity->n_groups = view->tenants[i].n_groups ? view->tenants[i].n_groups : 1;
        }
        predict_use(turns, until);
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                entity->spent = entity->used - entity->spent;
                sums.spent += entity->spent;
                *(entity->is_time_sliced ? &turns->sliced_used : &turns->always_on_used) += entity->spent;
                if (entity->spent > 0 || entity->n_new_starts)
                        sums.slices += slices_of(entity);
        }
        if (view->has_unmanaged)
                span.vacant = 0;
        turns->turn.was_blocked |= turns->holder != NOBODY && turns->entities[turns->holder].is_blocked;
        if (turns->now - until < LATE)
                turns->turn.vacant += nsec_max(span.vacant, 0);
        claims_look(turns, view, &span);
        for (size_t i = 0; i < turns->n; i++)
                bursts_look(turns, &turns->entities[i], &view->tenants[i]);
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                if (entity->may_burst)
                        bursts_charge(turns, view, (int)i, sums.spent, waited(turns, entity, &sums));
                else
                        account_debt(turns, entity, &sums);
        }
        if (turns->policy == TURNS_POLICY_STRICT)
                account_promised(turns);
        else
                account_owed(turns);
}

void account_turn_begin(struct turns *turns)
{
        turns->turn = (struct turn_account){ .from = turns->now,
                                             .was_blocked = turns->entities[turns->holder].is_blocked,
                                             .used = turns->entities[turns->holder].used,
                                             .counted = turns->entities[turns->holder].counted,
                                             .always_on_used = turns->always_on_used,
                                             .sliced_used = turns->sliced_used };
}

/* Two periods of what always-on entities are promised: so long may their bursts be. */
static nsec yielded(const struct turns *turns, struct entity *entity, nsec held, nsec wanted)
{
        uint32_t shares = 0;
        nsec yielded;

        for (size_t i = 0; i < turns->n; i++)
                shares += turns->entities[i].is_time_sliced ? 0 : turns->entities[i].share;
        entity->yielded = nsec_min(entity->yielded + part(held, shares), part(2 * turns->period, shares));
        yielded = nsec_min(nsec_max(wanted, 0), entity->yielded);
        entity->yielded -= yielded;
        return yielded;
}

void account_turn_end(struct turns *turns)
{
        const struct turn_account *turn = &turns->turn;
        struct entity *holder = &turns->entities[turns->holder];
        nsec held = turns->now - turn->from, had = holder->used - turn->used;
        nsec others = nsec_max(turns->sliced_used - turn->sliced_used - had, 0), unused;

        if (holder->counted > turn->counted) /* it was on the device */
                held -= is_short_round(turns) ? HANDED_OVER_SHORT : HANDED_OVER;
        unused = held - had - others -
                 yielded(turns, holder, held, turns->always_on_used - turn->always_on_used); /* A2 */
        unused = nsec_max(unused, turn->vacant - VACANT_MOST);
        if (unused > 0 && !holder->is_at_cap && !turn->was_blocked && holder->work != TURNS_WORK_UNKNOWN)
                holder->owed = nsec_max(holder->owed - unused, -turns->period); /* A1 */
        account_turn_begin(turns);
}

void account_hold(struct turns *turns, int entity)
{
        if (turns->n_holds && turns->holds[turns->n_holds - 1].entity == entity)
                return;
        if (turns->n_holds == N_HOLDS) {
                turns->n_holds--;
                memmove(turns->holds, turns->holds + 1, turns->n_holds * sizeof(turns->holds[0]));
        }
        turns->holds[turns->n_holds++] = (struct hold){ .from = turns->now, .entity = entity };
}
