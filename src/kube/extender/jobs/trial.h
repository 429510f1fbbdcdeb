/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs counted, and their pods placed on trial: what jobs.c decides with. A job's pods are placed one after the other,
 * the largest first, each on the node of the best score, without going back: where pods are alike, as a job's are, that
 * finds a place for all of them if there is one.
 */
#pragma once

#include "kube/extender/verdict.h"

/* The nodes that a pod may be put on; borrowed. */
struct jobs_nodes {
        struct cluster_node **list;
        size_t n;
};

/* A job, counted: pods that are not leaving. */
struct jobs_census {
        unsigned int n, n_wanted;
        unsigned int n_succeeded; /* not in n; 0 if that is all that the job had */
        unsigned int n_bound;     /* or about to be, or perhaps: it has a place that is not only reserved */
        unsigned int n_placed;    /* a place is reserved for it */
        int priority;             /* of the highest */
        const char *created;      /* of the oldest */
};

struct jobs_census jobs_count(const struct cluster_job *job);
bool jobs_is_whole(const struct jobs_census *is);  /* J1, J5 */
bool jobs_waits(const struct jobs_census *is);     /* whole, and a pod has no place */
bytes jobs_size_of(const struct cluster_pod *pod); /* of all that it asks for */

/* The largest pod of the job without a place; NULL: all have one. */
struct cluster_pod *jobs_next_pod(const struct cluster_job *job);

/* On the best of the nodes, reserved. NULL: on none. */
const char *jobs_place_one(struct extend *extend, struct cluster_pod *pod, const struct jobs_nodes *nodes);

/* J2: places for all that have none. True: the caller ends it. False: it has been undone; *ret is the pod that fits
 * nowhere. */
bool jobs_try(struct extend *extend, struct cluster_job *job, const struct jobs_nodes *nodes,
              const struct cluster_pod **ret);
void jobs_try_end(struct extend *extend, struct cluster_job *job, bool is_kept);

/* J4: one that goes before this job, could have places now, and leaves none for it; NULL: none. */
const struct cluster_job *jobs_must_wait_for(struct extend *extend, struct cluster_job *job,
                                             const struct jobs_nodes *nodes);
