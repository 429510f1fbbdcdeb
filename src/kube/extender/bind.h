/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding a pod: the decision is made and counted under the lock, then written to the API server, first the annotations
 * with the UID as a precondition, then the binding. So every bound pod carries its decision.
 *
 *  B1  A decision that the API server refuses is taken back. If no answer says whether it was carried out, the pod is
 *      read again; if that fails too, the decision keeps counting until the scheduler repeats the call or a list shows
 *      the pod.
 *  B2  A repeated call gets the first call's answer (the scheduler does repeat calls). A call for another node than the
 *      one the pod counts on reads the pod before it believes either.
 *  B3  Nothing is written by an extender that does not hold the lease; that is checked before each call (elect.h).
 *  B4  Only pods that ask for GPU memory are bound, and to no cordoned node: whoever reaches the port gains no more
 *      than a place that the scheduler could have given.
 *
 * Threads: any number; the lock is not held across a call.
 */
#pragma once

#include "kube/client/api.h"
#include "kube/extender/elect.h"
#include "kube/extender/extend.h"

#include "base/lock.h"

struct bind_api; /* an API client */

struct binder {
        struct lock *lock; /* of extend */
        struct extend *extend;
        const struct elect *elect;
        struct api_settings api;
        struct bind_api *idle; /* under the lock */
};

struct bind_request {
        const char *name, *namespace, *uid, *node;
};

/* 0: the pod is bound there; else -errno with err. */
int bind_pod(struct binder *binder, const struct bind_request *request, struct err *err);
void binder_done(struct binder *binder);
