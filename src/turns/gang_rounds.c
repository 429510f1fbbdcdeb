/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which gangs are on (J2, J3, J6). Each domain has rounds of its own, in which each of its gangs has one turn; who is
 * on is chosen anew in each call, from the largest gang to the smallest: a gang that may go on is chosen again.
 */
#include "turns/gang_inside.h"

#include <string.h>

#define EARLY (50 * NSEC_PER_USEC)   /* a turn that ends so soon has ended */
#define ON_TIME (10 * NSEC_PER_MSEC) /* as in round_robin.c */

static bool is_ready(const struct gang *gang)
{
        return is_gang(gang) && gang->is_time_sliced && !gang->is_blocked;
}

static nsec round_end(const struct gangs *gangs, int domain)
{
        return gangs->rounds[domain].at + gangs->rounds[domain].length;
}

/* ---- domains --------------------------------------------------------------------------------- */

static void domains_find(struct gangs *gangs)
{
        for (int d = 0; d < GANGS_DEVICES_MAX; d++) {
                gangs->devices[d].domain = d;
                gangs->wake[d] = INT64_MAX;
        }
        for (size_t i = 0; i < gangs->n; i++) {
                uint32_t joined = 0;
                int lowest;

                if (!is_gang(&gangs->gangs[i]) || !gangs->gangs[i].is_time_sliced)
                        continue;
                EACH_DEVICE(d, gangs->gangs[i].awake)
                joined |= 1u << gangs->devices[d].domain;
                lowest = __builtin_ctz(joined);
                for (int d = 0; d < GANGS_DEVICES_MAX; d++)
                        if (joined & 1u << gangs->devices[d].domain)
                                gangs->devices[d].domain = lowest;
        }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* What gangs are owed is not more than others have had too much: what a device lost to switches is nobody's. Of its
 * devices, each gang is corrected by the one that has promised most. */
static void owed_balance(struct gangs *gangs, int domain)
{
        nsec sums[GANGS_DEVICES_MAX] = { 0 };

        for (size_t i = 0; i < gangs->n; i++)
                if (is_ready(&gangs->gangs[i]) && domain_of(gangs, &gangs->gangs[i]) == domain)
                        EACH_DEVICE(d, gangs->gangs[i].awake)
        sums[d] += gangs->gangs[i].owed;
        for (size_t i = 0; i < gangs->n; i++) {
                struct gang *gang = &gangs->gangs[i];
                nsec most = INT64_MIN;

                if (!is_ready(gang) || domain_of(gangs, gang) != domain)
                        continue;
                EACH_DEVICE(d, gang->awake)
                most = nsec_max(most, sums[d]);
                gang->owed -= most * (nsec)gang->weight / PPM;
        }
}

/* R4 of round_robin.c. */
static bool is_worth(const struct gangs *gangs, const struct gang *gang)
{
        return gang->turn >= (part_of_round(gangs, gang) > TURN_MIN / 5 * 4 ? TURN_MIN / 2 : TURN_MIN);
}

/* A job loses what it had of a step, or waits for its other half, whenever it goes off and comes on: with fewer
 * handovers more steps are made. A round is long only where nobody else takes turns on these devices, and nobody has
 * asked for latency. */
static nsec round_length(const struct gangs *gangs, int domain)
{
        for (size_t i = 0; i < gangs->n; i++) {
                const struct gang *gang = &gangs->gangs[i];

                if (!is_ready(gang) || domain_of(gangs, gang) != domain)
                        continue;
                EACH_DEVICE(d, gang->devices)
                if (gangs->devices[d].rest.is_wanted || !gang->ranks[d].sign.is_patient)
                        return gangs->period;
        }
        return gangs->period_most;
}

/* Somebody has come whom a long round would hold up. What is lost of a turn stays owed. */
static void round_shorten(struct gangs *gangs, int domain)
{
        nsec length = round_length(gangs, domain);

        if (length >= gangs->rounds[domain].length)
                return;
        gangs->rounds[domain].length = length;
        for (size_t i = 0; i < gangs->n; i++) {
                struct gang *gang = &gangs->gangs[i];

                if (!is_ready(gang) || domain_of(gangs, gang) != domain || !gang->has_turn)
                        continue;
                gang->turn = nsec_min(gang->turn, part_of_round(gangs, gang));
                if (gang->has_begun)
                        gang->until = nsec_min(gang->until, gangs->now + gang->turn);
        }
}

static void round_begin(struct gangs *gangs, int domain)
{
        struct gangs_round *round = &gangs->rounds[domain];
        nsec next = round->at + round->length;

        round->at = gangs->now - next < ON_TIME ? next : gangs->now;
        round->length = round_length(gangs, domain);
        owed_balance(gangs, domain);
        for (size_t i = 0; i < gangs->n; i++) {
                struct gang *gang = &gangs->gangs[i];

                if (!is_ready(gang) || domain_of(gangs, gang) != domain)
                        continue;
                gang->turn = part_of_round(gangs, gang) + gang->owed;
                gang->has_turn = is_worth(gangs, gang);
                gang->has_begun = false;
        }
}

/* Bits of domains: in those, a gang has time left of its turn; or they have gangs at all. */
static void rounds_look(struct gangs *gangs, uint32_t *ret_pending, uint32_t *ret_domains)
{
        *ret_pending = *ret_domains = 0;
        for (size_t i = 0; i < gangs->n; i++) {
                struct gang *gang = &gangs->gangs[i];

                if (!is_ready(gang))
                        continue;
                if (gang->has_turn && gang->has_begun && gangs->now + EARLY >= gang->until)
                        gang->has_turn = false;
                *ret_domains |= 1u << domain_of(gangs, gang);
                if (gang->has_turn)
                        *ret_pending |= 1u << domain_of(gangs, gang);
        }
}

/* ---- who is on ------------------------------------------------------------------------------- */

/* The largest first. Returns their number. */
static size_t by_size(struct gangs *gangs, struct gang **ret)
{
        size_t at[GANGS_DEVICES_MAX + 2] = { 0 }, n = 0;

        for (size_t i = 0; i < gangs->n; i++)
                if (is_ready(&gangs->gangs[i])) {
                        at[GANGS_DEVICES_MAX - __builtin_popcount(gangs->gangs[i].awake) + 1]++;
                        n++;
                }
        for (size_t k = 1; k <= GANGS_DEVICES_MAX; k++)
                at[k] += at[k - 1];
        for (size_t i = 0; i < gangs->n; i++)
                if (is_ready(&gangs->gangs[i]))
                        ret[at[GANGS_DEVICES_MAX - __builtin_popcount(gangs->gangs[i].awake)]++] = &gangs->gangs[i];
        return n;
}

static bool can_be_lent(const struct gangs *gangs, const struct gang *gang)
{
        if (gangs->policy == TURNS_POLICY_STRICT)
                return false;
        EACH_DEVICE(d, gang->awake)
        if (gangs->devices[d].rest.is_wanted || gang->ranks[d].sign.is_capped)
                return false;
        return true;
}

static void choose(struct gangs *gangs, struct gang **order, size_t n)
{
        uint32_t taken = 0;

        for (size_t i = 0; i < n; i++) {
                order[i]->is_chosen = order[i]->has_turn && !(order[i]->awake & taken);
                if (order[i]->is_chosen)
                        taken |= order[i]->awake;
        }
        for (size_t i = 0; i < n; i++) {
                if (order[i]->is_chosen || order[i]->awake & taken || !can_be_lent(gangs, order[i]))
                        continue;
                order[i]->is_chosen = true;
                taken |= order[i]->awake;
        }
}

static void come_on(struct gangs *gangs, struct gang *gang)
{
        gang->is_on = true;
        gang->since = gangs->now;
        gang->is_seen = false;
        EACH_DEVICE(d, gang->devices)
        gang->ranks[d].was_seen = false;
        gangs->changed |= gang->devices;
}

/* R2: a turn begins where the one before on its devices should have ended. */
static void turn_begin(struct gangs *gangs, struct gang *gang)
{
        nsec freed_at = 0;

        EACH_DEVICE(d, gang->awake)
        freed_at = nsec_max(freed_at, gangs->devices[d].freed_at);
        gang->until = (gangs->now - freed_at < ON_TIME ? freed_at : gangs->now) + nsec_max(gang->turn, TURN_MIN / 2);
        gang->has_begun = true;
        gangs->changed |= gang->devices;
}

/* Its devices are others' now: its turn is over, or a larger gang comes. */
static void go_off(struct gangs *gangs, struct gang *gang)
{
        nsec end = gang->has_turn || gang->is_lent ? gangs->now : gang->until;

        if (gang->has_turn && gang->has_begun) {
                gang->turn = gang->until - gangs->now;
                gang->has_turn = gang->turn >= TURN_MIN / 2;
                gang->has_begun = false;
        }
        EACH_DEVICE(d, gang->devices)
        gangs->devices[d].freed_at = end;
        gang->is_on = gang->is_lent = false;
        gangs->changed |= gang->devices;
}

static void turn_over(struct gangs *gangs, struct gang *gang)
{
        if (gang->is_on && (!gang->is_chosen || !is_ready(gang)))
                go_off(gangs, gang);
        else if (gang->is_on && !gang->is_lent && !gang->has_begun)
                EACH_DEVICE(d, gang->devices) /* its turn has ended, and it goes on */
        gangs->devices[d].freed_at = gang->until;
}

static void turn_take(struct gangs *gangs, struct gang *gang)
{
        int domain = domain_of(gangs, gang);

        if (gang->is_chosen && !gang->is_on)
                come_on(gangs, gang);
        if (gang->is_chosen && gang->has_turn && !gang->has_begun)
                turn_begin(gangs, gang);
        gang->is_lent = gang->is_chosen && !gang->has_turn;
        if (gang->is_chosen && gang->has_turn)
                gangs->wake[domain] = nsec_min(gangs->wake[domain], gang->until);
        else if (!gang->has_turn && round_end(gangs, domain) > gangs->now)
                gangs->wake[domain] = nsec_min(gangs->wake[domain], round_end(gangs, domain));
}

/* All go off before one comes on: it begins where they end. */
static void hand_over(struct gangs *gangs, struct gang **order, size_t n)
{
        for (size_t i = 0; i < gangs->n; i++)
                if (gangs->gangs[i].id && (gangs->gangs[i].is_on))
                        turn_over(gangs, &gangs->gangs[i]);
        for (size_t i = 0; i < n; i++)
                turn_take(gangs, order[i]);
}

void gang_rounds_next(struct gangs *gangs)
{
        struct gang *order[GANGS_MAX];
        uint32_t pending, domains;
        size_t n;

        domains_find(gangs);
        rounds_look(gangs, &pending, &domains);
        EACH_DEVICE(d, domains & pending)
        round_shorten(gangs, (int)d);
        EACH_DEVICE(d, domains & ~pending)
        if (gangs->now + EARLY >= round_end(gangs, (int)d))
                round_begin(gangs, (int)d);
        n = by_size(gangs, order);
        choose(gangs, order, n);
        hand_over(gangs, order, n);
}
