/*
 * What is chosen where the operator chose nothing. The figures are in docs/time.md.
 *
 * Turns: the only policy that keeps shares for tenants of every kind, and its sum is the best as soon as turns are
 * longer than 20 ms. The period is the longest that still divides 100 ms: what is won by longer turns (2 % from 20 to
 * 100 ms for deep queues, 5 % for synchronous ones) matters to all, and whom waiting hurts is of class latency.
 */
#include "turns/inside.h"

#define PERIOD (100 * NSEC_PER_MSEC)
#define PERIOD_MIN (10 * NSEC_PER_MSEC)
#define PERIOD_MAX (10 * NSEC_PER_SEC)

enum turns_policy auto_pick(const struct turns *turns)
{
        return turns->settings.policy == TURNS_POLICY_AUTO ? TURNS_POLICY_TURNS : turns->settings.policy;
}

nsec auto_period(const struct turns *turns)
{
        nsec period = turns->settings.period;

        return period ? nsec_min(nsec_max(period, PERIOD_MIN), PERIOD_MAX) : PERIOD;
}
