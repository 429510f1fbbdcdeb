/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of requests that are held because every replica is saturated or asleep. Pure.
 *
 * Holding here instead of in an engine keeps the choice open until a replica has room. The order is
 *      1. priority, higher first;
 *      2. requests past half of their time before the others, the first that is due first (so nothing starves behind
 *         better-cached requests of the same priority);
 *      3. the cached fraction, in quarters: the cheapest for the replicas first;
 *      4. age.
 * For a fixed `now` this is a strict weak order.
 *
 * The queue is bounded. A new request over the bound is refused, unless its priority is higher than that of a held
 * one; then the last in the order is refused in its place.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue_item {
        nsec arrived;
        nsec deadline;            /* when it is refused; > arrived */
        nsec due;                 /* the deadline that counts for the order: not every client may set one */
        int32_t priority;         /* 0 is ordinary */
        uint32_t cached_permille; /* of its prompt, at the replica that has most of it */
};

enum queue_verdict {
        QUEUE_ADMIT,
        QUEUE_DISPLACE, /* admit, and refuse the last in the order */
        QUEUE_REFUSE,   /* 429 */
};

/* a is released before b. Threads: any. */
bool queue_before(const struct queue_item *a, const struct queue_item *b, nsec now);

/* n_held, bound: of the queue; last: the last in its order, NULL if it is empty. */
enum queue_verdict queue_admit(size_t n_held, size_t bound, const struct queue_item *item,
                               const struct queue_item *last);

/*
 * Seconds for Retry-After: how long the work takes at the rate of all replicas together; 1 .. 120. work as in pick.h.
 */
unsigned int queue_retry_after(double work, double rate);
