/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which gangs want turns, which of their ranks are awake, and what they are owed.
 *
 * A gang's account is in its time on the device, as the mean of its ranks that are awake. What it is entitled to is
 * its weight's part of the time that always-on entities leave. The mean, and not each device for itself: one turn
 * serves all devices, so it can only be right for all of them together.
 */
#include "turns/gang_inside.h"

#define POLL (2 * NSEC_PER_MSEC)     /* of a rank that is asleep while its gang is on */
#define CATCH_UP (2 * NSEC_PER_MSEC) /* as in round_robin.c, of a gang with a cap */

/* ---- the account ----------------------------------------------------------------------------- */

static nsec owed_most(const struct gangs *gangs, const struct gang *gang)
{
        bool is_capped = false;

        EACH_DEVICE(d, gang->devices)
        is_capped |= gang->ranks[d].sign.is_capped;
        return is_capped ? CATCH_UP : nsec_max(part_of_round(gangs, gang), 2 * TURN_MIN);
}

static void account(struct gangs *gangs, struct gang *gang)
{
        nsec spent = 0, beside = 0, passed = gangs->now - gang->accounted_at, n = 0;

        EACH_DEVICE(d, gang->devices)
        {
                struct rank *rank = &gang->ranks[d];
                nsec used = rank->sign.used + (gang->is_on && !rank->is_asleep ? gangs->now - rank->told_at : 0);
                nsec always_on = gangs->devices[d].rest.always_on;

                if (!rank->is_asleep) {
                        spent += used - rank->used;
                        beside += always_on - rank->always_on;
                        n++;
                }
                rank->used = used;
                rank->always_on = always_on;
        }
        gang->accounted_at = gangs->now;
        if (!gang->is_time_sliced || !n)
                return;
        gang->owed += part(nsec_max(passed - beside / n, 0), gang->weight) - spent / n;
        gang->owed = nsec_max(gang->owed, -nsec_max(part_of_round(gangs, gang), 2 * TURN_MIN));
        gang->owed = nsec_min(gang->owed, owed_most(gangs, gang));
}

/* ---- ranks --------------------------------------------------------------------------------- */

/* By then the device has switched to a rank with work. */
static nsec seen_by(const struct gang *gang, const struct rank *rank)
{
        return gang->since + SWITCHED_TO_MAX + rank->sign.beside;
}

static void set_asleep(struct gangs *gangs, struct gang *gang, uint32_t device, bool is_asleep)
{
        if (gang->ranks[device].is_asleep == is_asleep)
                return;
        gang->ranks[device].is_asleep = is_asleep;
        gangs->changed |= 1u << device;
}

/* J5. Only where another rank works: if none does, the gang is idle as a whole. */
static void ranks_sleep(struct gangs *gangs, struct gang *gang)
{
        gang->awake = 0;
        EACH_DEVICE(d, gang->devices)
        {
                struct rank *rank = &gang->ranks[d];

                if (gang->is_on ? rank->was_seen : !gang->is_time_sliced && rank->sign.is_at_work)
                        set_asleep(gangs, gang, d, false);
                else if (gang->is_on && gang->is_seen && rank->metered_until >= seen_by(gang, rank))
                        set_asleep(gangs, gang, d, true);
                if (!rank->is_asleep)
                        gang->awake |= 1u << d;
                else if (gang->is_on)
                        device_wake_at(gangs, d, gangs->now + POLL);
        }
        if (gang->awake)
                return;
        EACH_DEVICE(d, gang->devices)
        set_asleep(gangs, gang, d, false);
        gang->awake = gang->devices;
}

/* J4. False also while the meter cannot say yet. */
static bool is_idle(struct gangs *gangs, const struct gang *gang)
{
        bool is_idle = true;

        if (!gang->is_on || gang->is_seen)
                return false;
        EACH_DEVICE(d, gang->devices)
        {
                nsec until = seen_by(gang, &gang->ranks[d]);

                if (gang->ranks[d].metered_until >= until)
                        continue;
                is_idle = false;
                device_wake_at(gangs, d, until > gangs->now ? until : gangs->now + NSEC_PER_MSEC);
        }
        return is_idle;
}

static void ranks_add_up(const struct gangs *gangs, struct gang *gang, struct turns_sign *ret)
{
        bool is_strict = gangs->policy == TURNS_POLICY_STRICT;

        *ret = (struct turns_sign){ .is_satisfied = true };
        gang->weight = PPM;
        EACH_DEVICE(d, gang->devices)
        {
                const struct rank *rank = &gang->ranks[d];
                uint32_t weight = is_strict ? rank->sign.share : rank->sign.fair;

                ret->wants_more |= rank->sign.wants_more;
                ret->is_satisfied &= rank->sign.is_satisfied;
                ret->is_blocked |= rank->sign.is_blocked;
                ret->debt = nsec_max(ret->debt, rank->sign.debt);
                gang->is_seen |= gang->is_on && rank->was_seen;
                if (!rank->is_asleep && weight < gang->weight)
                        gang->weight = weight ? weight : 1;
        }
}

/* ---- always-on and time-sliced --------------------------------------------------------------- */

static void time_slice(struct gangs *gangs, struct gang *gang, bool is_time_sliced, nsec debt)
{
        if (gang->is_time_sliced == is_time_sliced)
                return;
        gang->is_time_sliced = is_time_sliced;
        gang->has_turn = gang->has_begun = gang->is_on = gang->is_lent = false;
        gang->owed = -nsec_min(debt, part_of_round(gangs, gang));
        gangs->changed |= gang->devices;
}

void gang_demand_update(struct gangs *gangs, struct gang *gang)
{
        struct turns_sign sum;

        ranks_add_up(gangs, gang, &sum);
        account(gangs, gang);
        if (gang->is_blocked != sum.is_blocked)
                gangs->changed |= gang->devices;
        gang->is_blocked = sum.is_blocked;
        if (gangs->policy == TURNS_POLICY_STRICT || sum.wants_more)
                time_slice(gangs, gang, true, sum.debt);
        else if (sum.is_satisfied || is_idle(gangs, gang))
                time_slice(gangs, gang, false, 0);
        ranks_sleep(gangs, gang);
}
