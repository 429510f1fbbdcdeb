/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes the tenants of running pods as the pods' annotations say (resize.h), through the daemon, and says on the pod
 * what became of it (an event). Asked of one tenant once: until the annotations change, or the container is started
 * anew. What the daemon could not be asked is asked again; what it refused because it does not fit now, beside the
 * others, is asked again every RESIZER_AGAIN, without another event for as long as it is refused.
 *
 * Threads: one of its own, which waits for the daemon and the API server; nobody waits for it.
 */
#pragma once

#include "kube/plugin/allocation_reporter.h"

#define RESIZER_AGAIN (60 * NSEC_PER_SEC)

/* What was asked of one tenant. */
struct resizer_done {
        json_int_t tenant;
        char *asked;
        nsec again_at; /* by clock_now; 0: never */
        bool is_there; /* in the table of this pass */
};

struct resizer {
        struct allocation_reporter *reporter; /* whose pods are looked at; outlives this. With has_api */
        pthread_t thread;
        bool is_started;
        atomic_bool is_ending;
        struct resizer_done *done;
        size_t n_done;
};

/* Whether this is to be asked of the tenant now, a time of clock_now. */
bool resizer_is_due(const struct resizer *resizer, json_int_t tenant, const char *asked, nsec now);

/* What is to be said of it. The first of a tenant has the same name for the same text, so a plugin that begins anew
 * says nothing twice; later ones have a new name each. */
enum resizer_event { RESIZER_SAY_NOTHING, RESIZER_SAY_FIRST, RESIZER_SAY_NEW };

/* It was asked: outcome 0, or -errno, a refusal. */
enum resizer_event resizer_note(struct resizer *resizer, json_int_t tenant, const char *asked, int outcome, nsec now);

int resizer_start(struct resizer *resizer, struct err *err); /* 0; -errno with err */
void resizer_stop(struct resizer *resizer);                  /* also one that was never started */
