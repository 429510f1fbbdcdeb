/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/jobs/nudge.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/thread.h"
#include "kube/client/names.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

enum {
        PATH = 400,
};

#define PAUSE (250 * NSEC_PER_MSEC)
#define PAUSES 4 /* in a second */

/* A pod that has gone meanwhile, or has changed its UID, needs none. -EPERM: this pod is refused; else nothing is to be
 * had of the API server now. */
static int nudge_pod(struct api *api, const struct jobs_nudge *pod, struct err *err)
{
        char path[PATH], value[24];
        json_t *body, *answer = NULL;
        long status = 0;
        bool is_of_pod;
        int r;

        (void)snprintf(value, sizeof(value), "%lld", (long long)(clock_realtime() / NSEC_PER_SEC));
        (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace, pod->name);
        body = json_pack("{s:{s:s,s:{s:s}}}", "metadata", "uid", pod->uid, "annotations", ANNOTATION_JOB_ASKED, value);
        r = body ? api_call(api, "PATCH", path, "application/strategic-merge-patch+json", body, &status, &answer, err) :
                   err_set(err, -ENOMEM, "asking for a pod again");
        json_decref(answer);
        json_decref(body);
        is_of_pod = status < 500 && status != 401 && status != 429; /* not the extender's token, nor a crowd */
        if (r == 0 && status >= 300 && status != 404 && status != 409)
                r = err_say(err, is_of_pod ? -EPERM : -EIO, "asking for pod %s/%s again: the API server says %ld",
                            pod->namespace, pod->name, status);
        return r;
}

static void nudge_all(struct nudge *nudge, struct api *api)
{
        struct err err = { 0 };
        size_t n;
        int r;

        lock_take(nudge->lock);
        nudge->extend->now = clock_now();
        n = jobs_nudges(nudge->extend, nudge->list, ARRAY_SIZE(nudge->list));
        lock_drop(nudge->lock);
        for (size_t i = 0; i < n && elect_is_holder(nudge->elect); i++)
                if ((r = nudge_pod(api, &nudge->list[i], &err)) < 0) {
                        nudge->say(nudge->context, err.text);
                        if (r != -EPERM)
                                return; /* the others in their turn: the API server is away */
                }
}

static void *nudge_run(void *context)
{
        const struct timespec pause = { .tv_nsec = PAUSE };
        struct nudge *nudge = context;
        struct api *api = NULL;

        if (api_new(&nudge->api, &api) < 0)
                return NULL;
        for (unsigned int i = 0; !atomic_load(nudge->api.is_ending); i++) {
                if (i % PAUSES == 0 && nudge->is_ready(nudge->context))
                        nudge_all(nudge, api);
                (void)nanosleep(&pause, NULL);
        }
        (void)api_free(api);
        return NULL;
}

int nudge_start(struct nudge *nudge)
{
        int r = thread_start(&nudge->thread, nudge_run, nudge);

        nudge->is_started = r == 0;
        return r;
}

void nudge_end(struct nudge *nudge)
{
        if (nudge->is_started)
                (void)pthread_join(nudge->thread, NULL);
}
