/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round robin: time-sliced entities have the device one after the other, each for its part of a round plus what it is
 * owed.
 *
 *      R1  A round is one period, which divides 100 ms: any 100 ms hold whole rounds, so only the ends err.
 *      R2  A turn begins where the one before should have ended, so that late calls do not add up.
 *      R3  What is owed is computed from the meter, and goes into the next turn: errors do not add up either.
 *      R4  A turn shorter than TURN_MIN waits for a round in which it is longer.
 *      R5  An entity that joins within a round has its first turn at the end of it.
 *      R6  An entity that has used too much misses one round for it, never two: T3 limits the wait. In short rounds, in
 *          which a small share has no turn in each anyway, one that waits for answers misses as many again.
 *
 *      R7  A gang takes the device in the middle of a turn, and gives it back: the turn then goes on. The round is as
 *          much longer; the weights of the others are for what gangs leave.
 *
 * The orders of a handover enable the next holder and disable the one before, in this order, so that the device never
 * waits for a call (docs/time.md).
 */
#include "turns/inside.h"

#include <limits.h>

#define CATCH_UP (2 * NSEC_PER_MSEC) /* per round, of a tenant with a cap: more would be cut off a second later */
#define ON_TIME (10 * NSEC_PER_MSEC) /* a handover later than this begins a turn of its own */
#define ON_TIME_SHORT NSEC_PER_MSEC  /* in a short round */

static bool is_ready(const struct entity *entity)
{
        return takes_turns_here(entity) && !entity->is_blocked;
}

static int round_robin_find(const struct turns *turns, int entity, bool has_turn)
{
        for (size_t k = 1; k <= turns->n; k++) {
                size_t i = ((size_t)(entity + (int)turns->n) + k) % turns->n;

                if (is_ready(&turns->entities[i]) && (has_turn ? turns->entities[i].has_turn : (int)i != entity))
                        return (int)i;
        }
        return NOBODY;
}

int round_robin_after(const struct turns *turns, int entity)
{
        return round_robin_find(turns, entity, true);
}

int round_robin_other(const struct turns *turns, int entity)
{
        return round_robin_find(turns, entity, false);
}

/* What is owed sums to zero, so that a round is as long as a period. */
static void owed_balance(struct turns *turns)
{
        nsec sum = 0, weights = 0;

        for (size_t i = 0; i < turns->n; i++)
                if (takes_turns_here(&turns->entities[i])) {
                        sum += turns->entities[i].owed;
                        weights += turns->entities[i].weight;
                }
        for (size_t i = 0; i < turns->n; i++)
                if (takes_turns_here(&turns->entities[i]) && weights)
                        turns->entities[i].owed -= sum * (nsec)turns->entities[i].weight / weights;
}

/* R4. A turn that is usually about long enough is taken also when little is left of it: a share of 5 % that came every
 * other round made rounds of 86 and 104 ms, and no share over 100 ms was right. */
static bool is_worth(const struct turns *turns, const struct entity *entity, uint32_t weight)
{
        if (is_short_round(turns)) /* there are many, and the next is near */
                return entity->turn >= TURN_SHORT;
        return entity->turn >= (part(turns->period, weight) > TURN_MIN / 5 * 4 ? TURN_MIN / 2 : TURN_MIN);
}

/* R6: it would pay back all that it has had too much before its next turn. One of class latency, whose closed loop had
 * used twice its allowance, was stopped for 88 ms. */
static void slow_down(struct turns *turns, struct entity *entity)
{
        nsec turn = part(turns->round, entity->weight);
        unsigned int most = turn > 0 ? (unsigned int)(2 * ((TURN_SHORT + turn - 1) / turn)) : UINT_MAX;

        if (!is_short_round(turns) || !takes_turns_here(entity) || entity->may_wait == INT64_MAX)
                entity->n_missed = 0;
        else if (!entity->has_turn && ++entity->n_missed >= most) {
                entity->turn = TURN_SHORT;
                entity->has_turn = true;
        }
        if (entity->has_turn)
                entity->n_missed = 0;
}

static void round_begin(struct turns *turns)
{
        struct entity *first = NULL;
        bool has_any = false;

        owed_balance(turns);
        turns->round = steps_round(turns);
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                entity->owed = nsec_max(entity->owed, -part(turns->period, entity->weight)); /* R6 */
                if (entity->is_at_cap)
                        entity->owed = nsec_min(entity->owed, CATCH_UP);
                entity->turn = steps_turn(turns, entity);
                entity->has_turn = takes_turns_here(entity) && is_worth(turns, entity, entity->weight);
                slow_down(turns, entity);
                has_any |= entity->has_turn && is_ready(entity);
                if (is_ready(entity) && (!first || entity->turn > first->turn))
                        first = entity;
        }
        if (has_any || !first)
                return;
        first->turn = is_short_round(turns) ? TURN_SHORT : TURN_MIN;
        first->has_turn = true;
}

void round_robin_give(struct turns *turns, int entity, nsec from)
{
        turns->entities[entity].has_turn = false;
        turns->hold_until =
                from + nsec_max(turns->entities[entity].turn, is_short_round(turns) ? TURN_SHORT : TURN_MIN / 2);
        account_hold(turns, entity);
        if (turns->holder == entity)
                return;
        turns->given_by = turns->holder;
        turns->is_awaited = turns->entities[entity].work == TURNS_WORK_PENDING;
        turns->holder = turns->latest = entity;
        turns->hold_from = turns->now;
        turns->is_switched_to = false;
        account_turn_begin(turns);
        wake_at(turns, turns->now + (is_short_round(turns) ? SWITCHED_TO_SHORT : SWITCHED_TO_MAX));
}

/* What is left of the holder's turn comes when the gang leaves (R7). */
void round_robin_pause(struct turns *turns, nsec until)
{
        turns->probe.is_running = false;
        if (turns->holder != NOBODY) {
                struct entity *holder = &turns->entities[turns->holder];

                account_turn_end(turns);
                holder->turn = turns->hold_until - turns->now;
                holder->has_turn = holder->turn >= TURN_MIN / 2;
                if (holder->has_turn)
                        turns->latest = (int)(((size_t)turns->holder + turns->n - 1) % turns->n);
        }
        turns->holder = NOBODY;
        turns->hold_until = until;
}

/* The turn is over. */
static void round_robin_pass(struct turns *turns)
{
        nsec late = turns->now - turns->hold_until;
        nsec on_time = is_short_round(turns) ? ON_TIME_SHORT : ON_TIME;
        nsec from = late >= 0 && late < on_time ? turns->hold_until : turns->now; /* R2 */
        int next = round_robin_after(turns, turns->latest);

        if (turns->holder != NOBODY && turns->policy == TURNS_POLICY_TURNS)
                account_turn_end(turns);
        if (next == NOBODY) {
                round_begin(turns);
                next = round_robin_after(turns, turns->latest);
        }
        if (next != NOBODY) {
                round_robin_give(turns, next, from);
                return;
        }
        turns->holder = NOBODY;
        account_hold(turns, NOBODY);
}

/* One that waits for its answers has come to take part: the turn at hand is no longer than in the next round. */
static void round_shorten(struct turns *turns)
{
        nsec round;

        if (turns->holder == NOBODY)
                return;
        round = steps_round(turns);
        if (round >= turns->round)
                return;
        turns->round = round;
        turns->hold_until =
                nsec_min(turns->hold_until, turns->now + part(round, turns->entities[turns->holder].weight));
}

void round_robin_next(struct turns *turns, const struct turns_view *view)
{
        if (turns->is_seized)
                return;
        if (turns->holder != NOBODY && !is_ready(&turns->entities[turns->holder]))
                turns->holder = NOBODY;
        if (turns->probe.is_running && (turns->holder == NOBODY || !is_ready(&turns->entities[turns->probe.next])))
                turns->probe.is_running = false;
        round_shorten(turns);
        steps_watch_handover(turns, view);
        demand_watch(turns, view);
        if (!turns->probe.is_running && (turns->holder == NOBODY || turns->now >= turns->hold_until) &&
            (turns->holder == NOBODY || !demand_is_open(turns, view)))
                round_robin_pass(turns);
        if (turns->holder != NOBODY && !turns->probe.is_running)
                wake_at(turns, turns->hold_until);
}

/* ---- strict ---------------------------------------------------------------------------------- */

/* Every turn is the entity's share of the period, wanted or not. Time that is promised to none stays unused. */
static void strict_round(struct turns *turns)
{
        nsec next = turns->round_at + turns->period;

        turns->round_at = turns->now - next < turns->period ? next : turns->now;
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                entity->turn = part(turns->period, entity->share < entity->rate_max ? entity->share : entity->rate_max);
                entity->owed = nsec_min(nsec_max(entity->owed, -TURN_MIN), TURN_MIN);
                if (entity->turn < TURN_MIN) /* R4 */
                        entity->turn += entity->owed;
                entity->has_turn = takes_turns_here(entity) && is_worth(turns, entity, entity->share);
        }
}

void strict_next(struct turns *turns)
{
        int next;

        turns->probe.is_running = false;
        for (size_t i = 0; i < turns->n; i++)
                turns->entities[i].is_time_sliced = true;
        if (turns->is_seized)
                return;
        if (turns->holder != NOBODY && turns->now < turns->hold_until && is_ready(&turns->entities[turns->holder])) {
                wake_at(turns, turns->hold_until);
                return;
        }
        next = round_robin_after(turns, turns->latest);
        if (next == NOBODY && turns->now >= turns->round_at + turns->period) {
                strict_round(turns);
                next = round_robin_after(turns, turns->latest);
        }
        if (next == NOBODY) {
                turns->holder = NOBODY;
                account_hold(turns, NOBODY);
                wake_at(turns, nsec_max(turns->round_at + turns->period, turns->now + NSEC_PER_MSEC));
                return;
        }
        round_robin_give(turns, next,
                         turns->now - turns->hold_until < ON_TIME ? nsec_max(turns->hold_until, turns->round_at) :
                                                                    turns->now);
        wake_at(turns, turns->hold_until);
}
