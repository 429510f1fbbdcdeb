/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning. Each first byte gives a sample (work, time) of the engine's progress since the last known position.
 * Samples are not averaged as ratios: small requests that an engine prefills in one iteration answer together, the
 * first with all of the time and the others with none. Work and time are summed apart and fade with busy time.
 *
 * Believing. Three sums stand behind each other, each with a bounded weight: what it showed in the last seconds, what
 * it showed in the last minutes, and what is presumed of one like it: the seed corrected by the peers' error, or
 * without a seed the peers' mean by share. All of what it showed also fades with the time since the last sample, so
 * the presumption returns to who gets nothing. Without a seed it is a little better than the mean: a newcomer is
 * preferred until it has shown what it is (HOPE), and again long after.
 *
 * A busy period begins when work arrives at a replica that seems to have none. Work unproven by then (of requests that
 * answer in one piece) counts as done. If it was not, the next sample is too slow, the rate falls, and the mistake is
 * not repeated.
 */
#include "route/rate.h"

#define UNKNOWN 10000 /* work per second where nothing is known: one mid-range GPU */
#define FACTOR_MAX 64.0
#define WORD_MAX 1e6                /* seconds; fits a word whatever a ticket says */
#define GAP_MAX (10 * NSEC_PER_SEC) /* longer, and it was idle */

/* Seconds. */
#define NSEC 1e-9
#define PRIOR 2.0          /* weight of a seed */
#define PRIOR_PEERS 0.3    /* of what peers show, where there is no seed */
#define PRIOR_UNKNOWN 0.05 /* where there are no peers */
#define PRIOR_LONG 0.5     /* of the long run, beside what is recent */
#define RECENT_BUSY 10.0   /* recent evidence fades with so much busy time ... */
#define RECENT_AGE 10.0    /* ... and with so much time since the last sample */
#define LONG_BUSY 100.0
#define LONG_AGE 120.0
#define HOPE 1.25

/* A sample is at most this factor, and this many seconds more, slower than what was believed (R3). */
#define CLIP 4.0
#define CLIP_LEAST 0.5

struct position {
        uint64_t work;
        nsec at;
};

/* Seconds of work at the seed's rate, and seconds that it took. */
struct evidence {
        double work, time;
};

/* What it showed, in the last seconds and in the last minutes. */
struct shown {
        struct evidence recent, long_run;
};

static const struct rate_peers NOBODY = { .seed_factor = 1 };

static double share_of(const struct rate *rate)
{
        uint32_t share = atomic_load_explicit(&rate->share, memory_order_relaxed);

        return share ? share * 1e-3 : 1;
}

static double seed_of(const struct rate *rate)
{
        uint64_t seed = atomic_load_explicit(&rate->seed, memory_order_relaxed);

        return seed ? (double)(int64_t)seed : UNKNOWN * share_of(rate);
}

static bool has_seed(const struct rate *rate)
{
        return atomic_load_explicit(&rate->seed, memory_order_relaxed) != 0;
}

static double age_of(const struct rate *rate, nsec now)
{
        nsec at = atomic_load_explicit(&rate->taught_at, memory_order_relaxed);

        return now > at ? (double)(now - at) * NSEC : 0;
}

static struct evidence evidence_of(const struct rate_evidence *sums)
{
        return (struct evidence){ (double)atomic_load_explicit(&sums->expected, memory_order_relaxed) * NSEC,
                                  (double)atomic_load_explicit(&sums->actual, memory_order_relaxed) * NSEC };
}

/* A half is left after `span` seconds without a sample, a hundredth after ten times that. */
static struct evidence faded(const struct rate_evidence *sums, double age, double span)
{
        struct evidence e = evidence_of(sums);
        double keep;

        if (age > 0.1) { /* a division, for the idle only */
                keep = 1 / (1 + age * age / (span * span));
                e.work *= keep;
                e.time *= keep;
        }
        return e;
}

static struct shown shown(const struct rate *rate, double age)
{
        return (struct shown){ faded(&rate->recent, age, RECENT_AGE), faded(&rate->long_run, age, LONG_AGE) };
}

static bool is_heard(const struct rate *rate, nsec now)
{
        return now < atomic_load_explicit(&rate->heard_until, memory_order_relaxed);
}

static struct evidence add(struct evidence a, struct evidence b)
{
        return (struct evidence){ a.work + b.work, a.time + b.time };
}

/* With what it showed to other routers. */
static struct shown shown_to_all(const struct rate *rate, nsec now)
{
        struct shown own = shown(rate, age_of(rate, now));

        if (is_heard(rate, now)) {
                own.recent = add(own.recent, evidence_of(&rate->heard[0]));
                own.long_run = add(own.long_run, evidence_of(&rate->heard[1]));
        }
        return own;
}

/* What is presumed of a replica like this one. */
static struct evidence presumed(const struct rate *rate, const struct rate_peers *peers)
{
        if (has_seed(rate))
                return (struct evidence){ PRIOR * peers->seed_factor, PRIOR };
        if (peers->mean > 0)
                return (struct evidence){ HOPE * PRIOR_PEERS / UNKNOWN * peers->mean, PRIOR_PEERS };
        return (struct evidence){ PRIOR_UNKNOWN, PRIOR_UNKNOWN };
}

/* (recent + PRIOR_LONG x what is usual) / (its time + PRIOR_LONG), where usual = (long run + prior) / their time. */
static double believed(const struct rate *rate, const struct rate_peers *peers, const struct shown *own)
{
        struct evidence prior = presumed(rate, peers);
        double time = own->long_run.time + prior.time;
        double factor = (own->recent.work * time + PRIOR_LONG * (own->long_run.work + prior.work)) /
                        ((own->recent.time + PRIOR_LONG) * time);

        factor = factor > FACTOR_MAX ? FACTOR_MAX : factor < 1 / FACTOR_MAX ? 1 / FACTOR_MAX : factor;
        return seed_of(rate) * factor;
}

double rate_now(const struct rate *rate)
{
        struct shown own = shown(rate, 0);

        return believed(rate, &NOBODY, &own);
}

void rate_add(struct rate_peers *peers, const struct rate *rate, nsec now)
{
        struct evidence e = faded(&rate->long_run, age_of(rate, now), LONG_AGE);
        double whole = UNKNOWN; /* seed of a whole GPU */

        if (is_heard(rate, now))
                e = add(e, evidence_of(&rate->heard[1]));
        if (has_seed(rate)) {
                peers->seeded_work += e.work;
                peers->seeded_time += e.time;
                e.work += PRIOR;
                e.time += PRIOR;
                whole = seed_of(rate) / share_of(rate);
        }
        peers->work += e.work * whole;
        peers->time += e.time;
}

void rate_added(struct rate_peers *peers)
{
        peers->seed_factor = (PRIOR + peers->seeded_work) / (PRIOR + peers->seeded_time);
        peers->mean = peers->time > 0 ? peers->work / peers->time : 0;
}

void rate_seed(struct rate *rate, uint64_t work_per_second)
{
        atomic_store(&rate->seed, work_per_second);
}

void rate_share(struct rate *rate, uint32_t permille)
{
        atomic_store(&rate->share, permille);
}

/* The last position where the engine surely or presumably was. */
static struct position last_position(const struct rate *rate)
{
        uint64_t known = atomic_load(&rate->known), begun = atomic_load(&rate->begun);

        if (begun >= known)
                return (struct position){ begun, atomic_load(&rate->begun_at) };
        return (struct position){ known, atomic_load(&rate->known_at) };
}

void rate_look(const struct rate *rate, const struct rate_peers *peers, nsec now, struct rate_view *ret)
{
        struct position from = last_position(rate);
        uint64_t sent = atomic_load(&rate->sent);
        struct shown own = shown_to_all(rate, now);
        double per_second = believed(rate, peers, &own), left = 0;

        if (sent > from.work)
                left = (double)(int64_t)(sent - from.work) -
                       (now > from.at ? per_second * (double)(now - from.at) * NSEC : 0);
        *ret = (struct rate_view){ per_second, left > 0 ? left : 0, left < 0 ? -left / per_second : 0 };
}

double rate_backlog(const struct rate *rate, nsec now)
{
        struct rate_view view;

        rate_look(rate, &NOBODY, now, &view);
        return view.backlog;
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
        *ret = (struct rate_ticket){ .start = start, .end = start + size, .sent_at = now };
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

static int64_t word_of(double seconds)
{
        return (int64_t)((seconds < WORD_MAX ? seconds : WORD_MAX) * NSEC_PER_SEC);
}

static void add_sample(struct rate_evidence *sums, struct evidence before, double fade, struct evidence sample)
{
        double keep = fade / (fade + sample.time);

        atomic_store(&sums->expected, word_of(before.work * keep + sample.work));
        atomic_store(&sums->actual, word_of(before.time * keep + sample.time));
}

/* before: work per second that it was believed to do; 0: what it has shown says so. */
static void learn(struct rate *rate, double before, uint64_t work, nsec span, nsec now)
{
        struct evidence sample = { (double)work / seed_of(rate), (double)span * NSEC };
        struct shown own = shown(rate, age_of(rate, now));
        double most = CLIP * (double)work / (before > 0 ? before : believed(rate, &NOBODY, &own)) + CLIP_LEAST;

        if (sample.time > most)
                sample.time = most;
        add_sample(&rate->recent, own.recent, RECENT_BUSY, sample);
        add_sample(&rate->long_run, own.long_run, LONG_BUSY, sample);
        atomic_store(&rate->taught_at, now);
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
                learn(rate, ticket->per_second, ticket->end - from.work, now - from.at, now);
}

void rate_drop(struct rate *rate, const struct rate_ticket *ticket)
{
        uint64_t end = ticket->end;

        if (atomic_load(&rate->known) < end)
                (void)atomic_compare_exchange_strong(&rate->sent, &end, ticket->start);
}

/* In absolute figures: another router may have another seed. */
void rate_say(const struct rate *rate, nsec now, struct heard *ret)
{
        struct shown own = shown(rate, age_of(rate, now));
        double seed = seed_of(rate);

        ret->value[HEARD_BACKLOG] = (uint64_t)rate_backlog(rate, now);
        ret->value[HEARD_RECENT_WORK] = (uint64_t)(own.recent.work * seed);
        ret->value[HEARD_RECENT_NS] = (uint64_t)word_of(own.recent.time);
        ret->value[HEARD_LONG_WORK] = (uint64_t)(own.long_run.work * seed);
        ret->value[HEARD_LONG_NS] = (uint64_t)word_of(own.long_run.time);
}

void rate_hear(struct rate *rate, const struct heard *sum, nsec until)
{
        double seed = seed_of(rate);

        for (int i = 0; i < 2; i++) {
                atomic_store(&rate->heard[i].expected, word_of((double)sum->value[HEARD_RECENT_WORK + 2 * i] / seed));
                atomic_store(&rate->heard[i].actual, (int64_t)sum->value[HEARD_RECENT_NS + 2 * i]);
        }
        atomic_store(&rate->heard_until, until);
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
