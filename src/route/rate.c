/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning. Each first byte gives a sample (work, time) of the engine's progress since the last known position.
 * Samples are not averaged as ratios: small requests that an engine prefills in one iteration answer together, the
 * first with all of the time and the others with none. Work and time are summed apart and fade with busy time (FADE).
 * The sums start with PRIOR at the seed's rate, so a new replica counts as configured until it shows otherwise.
 *
 * A busy period begins when work arrives at a replica that seems to have none. Work unproven by then (of requests that
 * answer in one piece) counts as done. If it was not, the next sample is too slow, the rate falls, and the mistake is
 * not repeated.
 */
#include "route/rate.h"

#define UNKNOWN 10000 /* work per second of an unknown replica: one mid-range GPU */
#define PRIOR (2 * NSEC_PER_SEC)
#define PRIOR_UNKNOWN (NSEC_PER_SEC / 20)
#define FADE (10 * NSEC_PER_SEC)
#define FACTOR_MAX 64.0
#define EXPECTED_MAX 1e15           /* fits a word whatever a ticket says */
#define GAP_MAX (10 * NSEC_PER_SEC) /* longer, and it was idle */

struct position {
        uint64_t work;
        nsec at;
};

static double seed_of(const struct rate *rate)
{
        uint64_t seed = atomic_load(&rate->seed);

        return seed ? (double)seed : UNKNOWN;
}

static double prior_of(const struct rate *rate)
{
        return atomic_load(&rate->seed) ? (double)PRIOR : (double)PRIOR_UNKNOWN;
}

double rate_now(const struct rate *rate)
{
        double actual = (double)atomic_load(&rate->actual);
        double factor = actual > 0 ? (double)atomic_load(&rate->expected) / actual : 1;

        factor = factor > FACTOR_MAX ? FACTOR_MAX : factor < 1 / FACTOR_MAX ? 1 / FACTOR_MAX : factor;
        return seed_of(rate) * factor;
}

void rate_seed(struct rate *rate, uint64_t work_per_second)
{
        atomic_store(&rate->seed, work_per_second);
}

/* The last position where the engine surely or presumably was. */
static struct position last_position(const struct rate *rate)
{
        uint64_t known = atomic_load(&rate->known), begun = atomic_load(&rate->begun);

        if (begun >= known)
                return (struct position){ begun, atomic_load(&rate->begun_at) };
        return (struct position){ known, atomic_load(&rate->known_at) };
}

double rate_backlog(const struct rate *rate, nsec now)
{
        struct position from = last_position(rate);
        uint64_t sent = atomic_load(&rate->sent);
        double left = sent > from.work ? (double)(sent - from.work) : 0;

        if (now > from.at)
                left -= rate_now(rate) * (double)(now - from.at) / (double)NSEC_PER_SEC;
        return left > 0 ? left : 0;
}

void rate_reset(struct rate *rate, nsec now)
{
        atomic_store(&rate->begun_at, now);
        atomic_store(&rate->begun, atomic_load(&rate->sent));
}

void rate_send(struct rate *rate, double work, nsec now, struct rate_ticket *ret)
{
        bool is_idle = rate_backlog(rate, now) <= 0;
        uint64_t size = work < 1 ? 1 : (uint64_t)work;
        uint64_t start = atomic_fetch_add(&rate->sent, size);

        if (is_idle) {
                atomic_store(&rate->begun_at, now);
                atomic_store(&rate->begun, start);
        }
        *ret = (struct rate_ticket){ start, start + size, now };
}

/* Moves known forward; false: it was there already. */
static bool prove(struct rate *rate, uint64_t end)
{
        uint64_t known = atomic_load(&rate->known);

        do {
                if (end <= known)
                        return false;
        } while (!atomic_compare_exchange_weak(&rate->known, &known, end));
        return true;
}

static void learn(struct rate *rate, uint64_t work, nsec span)
{
        double expected = (double)atomic_load(&rate->expected), actual = (double)atomic_load(&rate->actual);
        double keep = (double)FADE / (double)(FADE + span);

        if (actual <= 0)
                expected = actual = prior_of(rate);
        expected = expected * keep + (double)work / seed_of(rate) * (double)NSEC_PER_SEC;
        atomic_store(&rate->expected, (uint64_t)(expected < EXPECTED_MAX ? expected : EXPECTED_MAX));
        atomic_store(&rate->actual, (uint64_t)(actual * keep + (double)span));
}

void rate_first(struct rate *rate, const struct rate_ticket *ticket, bool is_stream, nsec now)
{
        struct position from = last_position(rate);

        if (ticket->end <= from.work) /* of a busy period that seemed over, but was not */
                from = (struct position){ atomic_load(&rate->known), atomic_load(&rate->known_at) };
        if (from.work <= ticket->start && from.at < ticket->sent_at && from.work == ticket->start)
                from.at = ticket->sent_at;
        if (!prove(rate, ticket->end))
                return;
        atomic_store(&rate->known_at, now);
        if (is_stream && now >= from.at)
                learn(rate, ticket->end - from.work, now - from.at);
}

void rate_drop(struct rate *rate, const struct rate_ticket *ticket)
{
        uint64_t end = ticket->end;

        if (atomic_load(&rate->known) < end)
                (void)atomic_compare_exchange_strong(&rate->sent, &end, ticket->start);
}

void rate_end(struct rate *rate, nsec now)
{
        nsec last = atomic_exchange(&rate->ended_at, now), gap = atomic_load(&rate->gap);

        if (last && now >= last && now - last < GAP_MAX)
                atomic_store(&rate->gap, gap + (now - last - gap) / 16);
}

double rate_slot(const struct rate *rate, uint32_t n_before)
{
        return (double)atomic_load(&rate->gap) * (n_before + 1.0) / (double)NSEC_PER_SEC;
}
