/*
 * Binding: the decision is made and counted under the lock, then told to the API server: first the annotations, with the
 * UID as a precondition, then the binding. A pod that is bound has its decision written on it.
 *
 *  B1  A decision that the API server refused is taken back. If no answer says whether it was carried out, the pod is
 *      looked at; if that cannot be either, the decision stays counted until the scheduler asks again or a list shows.
 *  B2  Asked again for what was done, it answers as the first time (the scheduler repeats itself); for another node
 *      while the pod is counted on one, it looks before it believes.
 *  B3  Nothing is written without being the holder of the lease, asked before each call (elect.h).
 *
 * Threads: any number; the lock is not held across a call.
 */
#pragma once

#include "kube/client/api.h"
#include "kube/extender/elect.h"
#include "kube/extender/extend.h"

#include "base/lock.h"

struct bind_api; /* one API client, idle or in use */

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

/* 0: it is bound there; else why not, in err. */
int bind_pod(struct binder *binder, const struct bind_request *request, struct err *err);
void binder_done(struct binder *binder);
