/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods of one job, all or none (ANNOTATION_JOB, ANNOTATION_JOB_PODS). The scheduler asks for one pod at a time, so a
 * place for each pod of the job is reserved with the first one that it asks for: a decision (cluster_assume) that
 * counts from then on, and that the scheduler is led to by being offered that node only.
 *
 *  J1  No pod of a job is bound before as many pods as the job has are there, and each of them has a place at once.
 *  J2  Places are given to all pods of a job that wait, or to none, in one step under the lock: two jobs never hold a
 *      part each of what both need.
 *  J3  Places are held for JOBS_HOLD after the last pod was bound, at most. What is not bound then gives its places
 *      back, and the job gets none for JOBS_PAUSE, so that others can have them. A job that lost a pod, and of which
 *      nothing is bound, gives them back at once.
 *  J4  Of two jobs that wait and that could each have places, the one of higher priority, then the older one gets
 *      them. A job whose places the scheduler cannot use does not hold up others for JOBS_UNFIT.
 *  J5  A job of which a pod is bound has begun. Its other pods need places at once, but need not be all there: one
 *      that failed is replaced. It goes before jobs that have not begun. A pod that has succeeded is there as long as
 *      it has not been deleted, so what replaces the last one that was bound is not held up.
 *  J6  All of it follows from what the API server shows: annotations, ages, bindings. An extender that begins anew
 *      knows no reservation. What has begun goes on by J5, before anybody else is given a place.
 *      Where it gives its places back again and again, it is left alone for twice as long each time, up to
 *      JOBS_RESUME_MOST, until a pod of it is bound or the scheduler asks for one.
 *  J7  A pod of higher priority than a job gets the places of that job that are only reserved (jobs_yield). A job's
 *      pods evict nobody.
 *  J8  A reserved place whose node or device has gone, or whose device is unhealthy now, is none any more. A job that
 *      has not begun then gives the others back (J2), and is given places anew when it is asked for.
 *
 * Threads: one at a time, as for struct extend. extend->now is the caller's to set.
 */
#pragma once

#include "kube/extender/jobs/trial.h"

#define JOBS_HOLD (60 * NSEC_PER_SEC)
#define JOBS_PAUSE (30 * NSEC_PER_SEC)
#define JOBS_RESUME_MOST (600 * NSEC_PER_SEC)
#define JOBS_UNFIT (30 * NSEC_PER_SEC)
#define JOBS_NUDGE (15 * NSEC_PER_SEC) /* a pod whose place waits for it; else twice that */

/* Gives back what J3 says, and places what J6 says. Before each decision, on any pod. */
void jobs_tidy(struct extend *extend);

/* The node where this pod of a job is to go, one of `nodes`: the scheduler has found those good for it. NULL: it waits,
 * and `why` says for what. */
const char *jobs_place(struct extend *extend, const char *uid, const struct jobs_nodes *nodes,
                       char why[static EXTEND_WHY]);

/* The same where the scheduler has chosen already: 0: its place is on that node; -EAGAIN: it has none there. */
int jobs_place_on(struct extend *extend, const char *uid, const char *node, char why[static EXTEND_WHY]);

/* J7: the pod fits on none of these nodes. True: it does now. */
bool jobs_yield(struct extend *extend, const struct object_pod *pod, const struct jobs_nodes *nodes);

/* Why a pod of a job would wait now, as far as the cluster's own figures say it; "" if it would not. */
void jobs_explain(struct extend *extend, const char *uid, char why[static EXTEND_WHY]);

/* A pod to be nudged: the scheduler tries one that it found no node for again after some event, or after 5 minutes;
 * that its job is whole, or has places, is no event. */
struct jobs_nudge {
        char namespace[OBJECT_LABEL], name[OBJECT_NAME], uid[OBJECT_LABEL];
};

/* How many there are now; each counts as nudged. Those of one job come together. room: at least OBJECT_JOB_PODS. Once a
 * second. */
size_t jobs_nudges(struct extend *extend, struct jobs_nudge *ret, size_t room);
