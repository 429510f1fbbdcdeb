/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a replica prefills, and how much prefill it still has to do: only from what a router sees (what it sent,
 * first bytes, ends), never from inside the engine.
 *
 * Model: an engine prefills in the order of arrival. All work ever sent to a replica lies on one line; a request
 * covers [ticket.start, ticket.end) of it. Its first body byte proves that the engine has come at least to ticket.end,
 * whatever else is outstanding. So nothing is given back: a request that is aborted, lost with a killed worker or
 * never ends costs its own work until the next first byte behind it, no longer.
 *
 * What a replica has not shown is believed of its peers, by share. What it has shown fades with the time since then,
 * so a replica that was slow, and got nothing for that, is tried again.
 *
 * R1. known <= sent. Both only grow, but for the last ticket's rate_drop().
 * R2. Any worker process may call any function at any time. A worker that is killed inside one leaves the row usable:
 *     all words are single atomics, and a torn sample is one wrong sample.
 * R3. One sample makes nobody more than a few times slower than it was believed to be.
 *
 * The row lies in shared memory; all zero is valid (seed not known, nothing sent). Work as in pick.h.
 */
#pragma once

#include "base/clock.h"
#include "route/routers/heard.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Time that the observed work would have taken at the seed's rate, and time that it took; nsec. Both fade. */
struct rate_evidence {
        _Atomic int64_t expected, actual;
};

struct rate {
        _Atomic uint64_t sent;         /* work sent since ever */
        _Atomic uint64_t known;        /* position that a first byte has proven */
        _Atomic int64_t known_at;      /* when; nsec */
        _Atomic uint64_t begun;        /* position at which the present busy period began ... */
        _Atomic int64_t begun_at;      /* ... and when */
        _Atomic uint64_t seed;         /* work per second as configured: model rate x share; 0: not known */
        _Atomic uint32_t share;        /* of a GPU, in thousandths; 0: not known, taken as a whole one */
        struct rate_evidence recent;   /* of seconds */
        struct rate_evidence long_run; /* of minutes */
        _Atomic int64_t taught_at;     /* the last sample; nsec */
        _Atomic int64_t ended_at;      /* the last end of a request; nsec */
        _Atomic int64_t gap;           /* between ends, fading mean; nsec */
        struct rate_evidence heard[2]; /* recent and long run of other routers, work at this seed's rate ... */
        _Atomic int64_t heard_until;   /* ... until then */
};

/* One try of one request at one replica. Plain value, the caller's; zero is "nothing sent". */
struct rate_ticket {
        uint64_t start, end;
        nsec sent_at;
        double per_second; /* as it was believed to be when it was chosen, peers considered (rate_view); 0: not known */
};

/*
 * Work that the replica should do per second: the model's rate times the share granted now. Call again when the share
 * changes: what was learned is kept as a factor of it. 0: not known, all is learned.
 */
void rate_seed(struct rate *rate, uint64_t work_per_second);

/* Its part of a GPU in thousandths, by which it is compared with its peers; 0: not known. */
void rate_share(struct rate *rate, uint32_t permille);

/* A restarted, woken or replaced replica: its backlog is 0. What was learned stays. */
void rate_reset(struct rate *rate, nsec now);

/* work: pick.work of the decision; at least 1 is counted. The caller sets ret->per_second afterwards, if he knows it:
 * without it, what the replica has shown is all that a late answer is compared with (R3). */
void rate_send(struct rate *rate, double work, nsec now, struct rate_ticket *ret);

/*
 * The first byte of the answer's body (not of its header). is_stream: the answer is sent token by token, so its first
 * byte is the end of the prefill; else it is the end of the whole answer, which proves the position but teaches
 * nothing. A second call with the same ticket changes nothing.
 */
void rate_first(struct rate *rate, const struct rate_ticket *ticket, bool is_stream, nsec now);

/* The try ended without a first byte (refused, reset, client left): nothing is learned. Its work
 * leaves the backlog if nothing was sent after it, else with the next first byte behind it. */
void rate_drop(struct rate *rate, const struct rate_ticket *ticket);

/*
 * What the replicas of one model show together. Plain value; zero is nobody.
 *
 *      struct rate_peers peers = { 0 };
 *      for each replica i:     rate_add(&peers, rate[i], now);
 *      rate_added(&peers);
 *      for each replica i:     rate_look(rate[i], &peers, now, &view[i]);
 */
struct rate_peers {
        double seeded_work, seeded_time; /* of those with a seed: seconds at their seeds' rates, seconds */
        double work, time;               /* of all: work of a whole GPU, seconds */
        double seed_factor, mean;        /* by rate_added(): what a seed is worth, and work per second of a whole GPU */
};

/* A replica as it is believed to be now. */
struct rate_view {
        double per_second; /* work; > 0 */
        double backlog;    /* work sent and presumably not done; >= 0 */
        double overdue;    /* seconds since all of it should have been done, if an answer is still owed; else 0 */
};

void rate_add(struct rate_peers *peers, const struct rate *rate, nsec now);
void rate_added(struct rate_peers *peers); /* after the last */
void rate_look(const struct rate *rate, const struct rate_peers *peers, nsec now, struct rate_view *ret);

/* The same without peers. */
double rate_now(const struct rate *rate); /* as of the last sample */
double rate_backlog(const struct rate *rate, nsec now);

/*
 * What other routers before the same replica saw counts like what was seen here. rate_say writes the last five of
 * heard.def, what was heard left out; rate_hear takes the sum of what the others say, until a time.
 */
void rate_say(const struct rate *rate, nsec now, struct heard *ret);
void rate_hear(struct rate *rate, const struct heard *sum, nsec until);

/* A request ended, in whatever way. */
void rate_end(struct rate *rate, nsec now);

/* Seconds until a replica at capacity can take one more, behind n_before others that wait for it. */
double rate_slot(const struct rate *rate, uint32_t n_before);
