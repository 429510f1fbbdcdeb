/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leader election: of several extenders, the holder of a Lease of coordination.k8s.io decides.
 *
 * The holder renews every ELECT_RENEW, and considers itself the holder until ELECT_HOLD after the start of its last
 * successful renewal. Another takes a lease that has not changed for ELECT_LEASE by its own clock. A call to the API
 * server ends within API_SECONDS, so the old holder's calls are over before the next holder begins.
 *
 * Threads: one of its own renews; elect_is_holder from any.
 */
#pragma once

#include "kube/client/api.h"

#include <pthread.h>

#define ELECT_RENEW (2 * NSEC_PER_SEC)
#define ELECT_RETRY NSEC_PER_SEC /* when no call was answered: the API server may be back at any time */
#define ELECT_HOLD (10 * NSEC_PER_SEC)
#define ELECT_LEASE (15 * NSEC_PER_SEC)
_Static_assert(ELECT_HOLD + API_SECONDS * NSEC_PER_SEC < ELECT_LEASE,
               "an old holder's calls end before a new one begins");

struct elect {
        const char *lease; /* "namespace/name"; NULL: no election, this one holds */
        const char *self;  /* unique identity */
        struct api_settings api;
        void *context;
        void (*won)(void *context); /* before elect_is_holder is true: the copy must become current */

        _Atomic nsec held_until;
        atomic_uint n_won;
        char seen[256]; /* the last holder and version seen, and since when */
        nsec seen_at;
        pthread_t thread;
        bool is_started;
};

int elect_start(struct elect *elect);
void elect_end(
        struct elect *elect); /* after api.is_ending, and after all that only a holder does; gives the lease up */
bool elect_is_holder(const struct elect *elect);

/* Pure. What to do about the lease as it was read. now: monotonic. */
enum elect_step { ELECT_WAIT, ELECT_TAKE, ELECT_RENEW_IT };
enum elect_step elect_step(struct elect *elect, const json_t *lease, nsec now);
