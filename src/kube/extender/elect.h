/*
 * One of several extenders decides: whoever holds a Lease of coordination.k8s.io.
 *
 * A holder renews every ELECT_RENEW; it calls itself one only until ELECT_HOLD after a renewal that it knows of began, and
 * another takes a lease that nobody has renewed for ELECT_LEASE by its own clock. A call to the API server ends
 * within API_SECONDS, so what an old holder began is over before the next one begins.
 *
 * Threads: its own renews; elect_is_holder from any.
 */
#pragma once

#include "kube/client/api.h"

#include <pthread.h>

#define ELECT_RENEW (2 * NSEC_PER_SEC)
#define ELECT_HOLD (10 * NSEC_PER_SEC)
#define ELECT_LEASE (15 * NSEC_PER_SEC)
_Static_assert(ELECT_HOLD + API_SECONDS * NSEC_PER_SEC < ELECT_LEASE,
               "an old holder's calls end before a new one begins");

struct elect {
        const char *lease; /* "namespace/name"; NULL: there is no election, and we hold */
        const char *self;  /* who we are: unique */
        struct api_settings api;
        void *context;
        void (*won)(void *context); /* before elect_is_holder says so: what is known must become current */

        _Atomic nsec held_until;
        atomic_uint n_won;
        char seen[256]; /* the last holder and version, and since when they stand */
        nsec seen_at;
        pthread_t thread;
        bool is_started;
};

int elect_start(struct elect *elect);
void elect_end(struct elect *elect); /* after api.is_ending, and all that only a holder does; gives the lease up */
bool elect_is_holder(const struct elect *elect);

/* What to do about a lease, as it is: pure. now: monotonic. */
enum elect_step { ELECT_WAIT, ELECT_TAKE, ELECT_RENEW_IT };
enum elect_step elect_step(struct elect *elect, const json_t *lease, nsec now);
