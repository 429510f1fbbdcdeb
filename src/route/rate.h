/*
 * How fast a replica prefills, and how much prefill it still has before it: from what a router sees
 * only (what it sent, first bytes, ends), never from inside the engine.
 *
 * Model: an engine prefills in the order of arrival. All work ever sent to a replica lies on one line;
 * a request covers [ticket.start, ticket.end) of it. Its first body byte says that the engine has
 * come at least to ticket.end, whatever else is outstanding. So the backlog is sent - done, less what
 * it will have done since (at its rate, never into the work of a request that has not answered by
 * more than its own size), and there is nothing to give back: a request that is aborted, lost with a
 * killed worker or never ends costs its own work until the next first byte behind it, no longer.
 *
 * R1. done <= sent. Both only grow; rate_reset() sets done = sent.
 * R2. Every function may be called by any worker process at any time; a worker killed inside one
 *     leaves the row usable (all words are single atomics; a lost sample is a lost sample).
 *
 * The row lies in shared memory and is valid when zero but for rate_seed(). Work as in pick.h.
 */
#pragma once

#include "base/clock.h"

#include <stdatomic.h>
#include <stdint.h>

struct rate {
        _Atomic uint64_t sent;   /* work sent since ever */
        _Atomic uint64_t done;   /* position up to which it is known to be prefilled */
        _Atomic int64_t done_at; /* when done moved, or when work arrived at an idle replica; nsec */
        _Atomic uint64_t seed;   /* work per second as configured: model rate x share */
        _Atomic uint64_t factor; /* learned / seed, in 1/65536; 0: nothing learned yet */
        _Atomic uint64_t n_samples;
};

/* One try of one request at one replica. Plain value, the caller's; zero is "nothing sent". */
struct rate_ticket {
        uint64_t start, end;
        nsec sent_at;
};

/*
 * What the replica should do per second: the model's rate times the share it is granted now. Call
 * again when the share changes: what was learned is kept as a factor of it. 0: no idea; then the
 * first samples are taken as they are.
 */
void rate_seed(struct rate *rate, uint64_t work_per_second);

/* A restarted, woken or replaced replica: nothing is before it. What was learned stays. */
void rate_reset(struct rate *rate, nsec now);

/* work: pick.work of the decision; at least 1 is counted. */
void rate_send(struct rate *rate, double work, nsec now, struct rate_ticket *ret);

/*
 * The first byte of the answer's body (not of its header), or the end of a complete answer that was
 * not streamed. Learns. A second call with the same ticket changes nothing.
 */
void rate_first(struct rate *rate, const struct rate_ticket *ticket, nsec now);

/* The try ended without a first byte (refused, reset, client left): nothing is learned; its work is
 * taken off the backlog if it was the last sent, else the next first byte passes it. */
void rate_drop(struct rate *rate, const struct rate_ticket *ticket, nsec now);

double rate_now(const struct rate *rate);               /* work per second; 0: not known at all */
double rate_backlog(const struct rate *rate, nsec now); /* work */
