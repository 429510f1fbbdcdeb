/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the scheduler to try pods of jobs again, by a change of an annotation of theirs: an update of a waiting pod
 * takes it out of the scheduler's list of those that no node was found for.
 *
 * Threads: one of its own. The lock is not held across a call.
 */
#pragma once

#include "kube/extender/elect.h"
#include "kube/extender/jobs/jobs.h"

#include "base/lock.h"

struct nudge {
        struct lock *lock; /* of extend */
        struct extend *extend;
        const struct elect *elect; /* only the holder nudges */
        bool (*is_ready)(void *context);
        void (*say)(void *context, const char *text);
        void *context;
        struct api_settings api; /* is_ending ends it */
        pthread_t thread;
        bool is_started;
        struct jobs_nudge list[2 * OBJECT_JOB_PODS];
};

int nudge_start(struct nudge *nudge); /* 0; -errno */
void nudge_end(struct nudge *nudge);  /* after api.is_ending */
