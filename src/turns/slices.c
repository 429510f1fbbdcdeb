/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights as hardware time slices: the device switches by itself, nothing is disabled, no call is made.
 *
 * For tenants whose queues are never empty this is as exact as turns (docs/time.md). A tenant that drains its queue
 * gives the rest of its slice away, so for synchronous tenants it promises nothing.
 *
 * The device keeps a group for its slice and the time of a switch; the slice is shorter by that. A round is as short as
 * LOSS allows: a tenant with new work waits for a round.
 */
#include "turns/inside.h"

#define LOST (230 * NSEC_PER_USEC) /* of work, per switch (docs/time.md) */
#define LOSS 50                    /* how many times a round is what it loses: 2 % */
#define IN_SWITCH (85 * NSEC_PER_USEC)
#define ROUND_MIN (20 * NSEC_PER_MSEC)
#define SLICE_MIN (500 * NSEC_PER_USEC)

static nsec slices_round(const struct turns *turns)
{
        nsec round = (nsec)turns->n * LOST * LOSS;

        if (turns->settings.period)
                return turns->settings.period;
        return nsec_min(nsec_max(round, ROUND_MIN), NSEC_PER_SEC);
}

void slices_set(const struct turns *turns, struct turns_order *orders)
{
        nsec round = slices_round(turns);
        uint64_t sum = 0;

        for (size_t i = 0; i < turns->n; i++)
                sum += turns->entities[i].share;
        for (size_t i = 0; i < turns->n; i++) {
                nsec slice = round * (nsec)turns->entities[i].share / (nsec)(sum ? sum : 1) - IN_SWITCH;

                orders[i].slice = nsec_max(slice, SLICE_MIN);
        }
}
