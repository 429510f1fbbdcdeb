/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/bind.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/extender/jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        PATH = 800,
};

struct bind_api {
        struct bind_api *next;
        struct api *api;
};

/* One call of bind_pod. */
struct job {
        struct binder *binder;
        const struct bind_request *request;
        struct bind_api *client;
        struct err *err;
        bool is_assumed;
        json_t *annotations;
};

/* ---- clients ----------------------------------------------------------------------------------- */

static struct bind_api *client_borrow(struct binder *binder)
{
        struct bind_api *client;

        lock_take(binder->lock);
        client = binder->idle;
        if (client)
                binder->idle = client->next;
        lock_drop(binder->lock);
        if (client)
                return client;
        client = calloc(1, sizeof(*client));
        if (client && api_new(&binder->api, &client->api) < 0) {
                free(client);
                return NULL;
        }
        return client;
}

static void client_return(struct binder *binder, struct bind_api *client)
{
        lock_take(binder->lock);
        client->next = binder->idle;
        binder->idle = client;
        lock_drop(binder->lock);
}

void binder_done(struct binder *binder)
{
        struct bind_api *client;

        while ((client = binder->idle) != NULL) {
                binder->idle = client->next;
                (void)api_free(client->api);
                free(client);
        }
}

/* ---- calls ------------------------------------------------------------------------------------- */

/* HTTP status; negative: whether the call was carried out is not known. */
static long job_call(struct job *job, const char *method, const char *tail, const char *type, const json_t *body,
                     json_t **ret)
{
        json_t *answer = NULL;
        char path[PATH];
        long status = 0;
        int r;

        if (!elect_is_holder(job->binder->elect)) /* B3 */
                return err_say(job->err, -EPERM, "another extender decides now");
        (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s%s", job->request->namespace,
                       job->request->name, tail);
        r = api_call(job->client->api, method, path, type, body, &status, &answer, job->err);
        if (r == 0 && status >= 300 && status != 404) {
                const char *message = json_string_value(json_object_get(answer, "message"));

                (void)err_say(job->err, -EIO, "the API server says %ld: %.200s", status, message ? message : "");
        }
        if (ret)
                *ret = answer;
        else
                json_decref(answer);
        return r < 0 ? r : status;
}

/* Reads the pod. 1: bound to the requested node; 0: not bound; -ENOENT: gone; -EBUSY: bound elsewhere; else unknown. */
static int job_get_pod(struct job *job, struct object_pod *ret)
{
        json_t *json = NULL;
        long status = job_call(job, "GET", "", NULL, NULL, &json);
        int r = status < 0 ? (int)status : status == 404 ? -ENOENT : status != 200 ? -EIO : 0;

        if (r == 0 && object_pod_read(json, job->binder->extend->cluster.unit, ret) < 0)
                r = -EIO;
        json_decref(json);
        if (r < 0)
                return r == -ENOENT ? err_say(job->err, r, "the pod is gone") : r;
        if (strcmp(ret->uid, job->request->uid) != 0)
                return err_say(job->err, -ENOENT, "the pod is gone; another one has its name");
        if (ret->node[0] && strcmp(ret->node, job->request->node) != 0)
                return err_say(job->err, -EBUSY, "the pod is on %.100s already", ret->node);
        return ret->node[0] != '\0';
}

/* ---- the decision ------------------------------------------------------------------------------ */

static struct cluster_pod *pod_of(struct job *job)
{
        /* Changed through it are is_binding, which belongs to the binder, and is_reserved, which ends here. */
        return (struct cluster_pod *)(uintptr_t)cluster_pod(&job->binder->extend->cluster, job->request->uid);
}

static int job_annotate(struct job *job, const struct object_pod *pod, const struct placement *placement)
{
        const struct cluster *cluster = &job->binder->extend->cluster;
        const struct cluster_node *node = cluster_node(cluster, job->request->node);

        if (!node)
                return err_say(job->err, -ENOSPC, "node %.100s is not known now", job->request->node);
        job->annotations =
                object_annotations(pod, node->name, placement, (const char(*)[OBJECT_UUID])node->uuids, cluster->unit,
                                   node->devices[placement->device[0]].total, clock_realtime());
        return job->annotations ? 0 : err_set(job->err, -ENOMEM, "the decision's annotations");
}

/* B4. The scheduler has looked at the rest; kubelet looks again at what the pod asks for. */
static int job_check_node(const struct job *job, const struct object_pod *pod)
{
        const struct cluster_node *node = cluster_node(&job->binder->extend->cluster, job->request->node);

        if (!node || !node->is_cordoned || pod->tolerates_cordon)
                return 0;
        return err_say(job->err, -EPERM, "node %.100s is cordoned: it takes no new pods", job->request->node);
}

/* A pod of a job of pods: with all others of that job, or not at all. From here on it is a decision as any. */
static int job_decide_together(struct job *job, const struct object_pod *pod)
{
        struct cluster_pod *known = pod_of(job);
        struct placement placement;
        char why[EXTEND_WHY];

        if (jobs_place_on(job->binder->extend, known->uid, job->request->node, why) < 0)
                return err_say(job->err, -ENOSPC, "node %.100s: %s", job->request->node, why);
        known->is_reserved = false;
        memcpy(placement.device, known->devices, sizeof(placement.device));
        job->is_assumed = true;
        return job_annotate(job, pod, &placement);
}

/* Under the lock: picks devices, which count from now on. */
static int job_decide(struct job *job, const struct cluster_pod *known)
{
        struct extend *extend = job->binder->extend;
        struct object_pod pod;
        struct placement placement;
        char why[EXTEND_WHY];
        int r;

        cluster_pod_get(known, &pod);
        extend->now = clock_now();
        jobs_tidy(extend);
        r = job_check_node(job, &pod);
        if (r < 0)
                return r;
        if (known->job)
                return job_decide_together(job, &pod);
        if (known->node &&
            cluster_node(&extend->cluster, job->request->node)) { /* decided before: the same answer (B2) */
                memcpy(placement.device, known->devices, sizeof(placement.device));
                job->is_assumed = true;
                return job_annotate(job, &pod, &placement);
        }
        if (extend_pick(extend, job->request->node, &pod, &placement, why) != PLACEMENT_OK)
                return err_say(job->err, -ENOSPC, "node %.100s: %s", job->request->node, why);
        r = cluster_assume(&extend->cluster, job->request->uid, job->request->node, &placement);
        if (r < 0)
                return err_set(job->err, r, "counting the decision");
        job->is_assumed = true;
        return job_annotate(job, &pod, &placement);
}

/* Under the lock. 1: bound already; 0: decided; -EAGAIN: the pod must be read first. */
static int job_prepare(struct job *job)
{
        struct cluster_pod *pod = pod_of(job);
        bool is_here = pod && pod->node && !strcmp(pod->node->name, job->request->node);
        int r;

        if (!pod)
                return -EAGAIN;
        if (pod->has_succeeded)
                return err_say(job->err, -EPERM, "the pod has ended");
        if (pod->is_binding)
                return err_say(job->err, -EALREADY, "the pod is being bound");
        if (pod->is_bound)
                return is_here ? 1 : err_say(job->err, -EBUSY, "the pod is on %.100s already", pod->node->name);
        if (pod->node && (!is_here || (!pod->is_reserved && !extend_is_place_good(pod))))
                return -EAGAIN; /* what is only reserved is looked at by jobs_tidy */
        r = job_decide(job, pod);
        pod->is_binding = r == 0;
        return r;
}

static int job_prepare_locked(struct job *job)
{
        LOCKED(job->binder->lock);

        return job_prepare(job);
}

/* Stores the pod as it was read, and prepares again. */
static int job_prepare_with(struct job *job, const struct object_pod *seen)
{
        LOCKED(job->binder->lock);
        const struct cluster_pod *pod = pod_of(job);

        if (pod && pod->is_binding)
                return err_say(job->err, -EALREADY, "the pod is being bound");
        if (!seen->node[0])
                cluster_forget(&job->binder->extend->cluster, job->request->uid);
        if (cluster_put_pod(&job->binder->extend->cluster, seen) < 0)
                return err_set(job->err, -ENOMEM, "the pod");
        if (!seen->n_wants && !seen->node[0])
                return err_say(job->err, -EPERM, "%s",
                               seen->problem ?
                                       seen->problem :
                                       "the pod asks for no GPU memory: its scheduler binds it (managedResources of "
                                       "deploy/kubernetes/scheduler.yaml)");
        return seen->n_wants ? job_prepare(job) : 1;
}

/* ---- writing it to the API server -------------------------------------------------------------- */

static long job_patch_pod(struct job *job)
{
        json_t *body =
                json_pack("{s:{s:s,s:O}}", "metadata", "uid", job->request->uid, "annotations", job->annotations);
        long status = job_call(job, "PATCH", "", "application/strategic-merge-patch+json", body, NULL);

        json_decref(body);
        return status;
}

static long job_post_binding(struct job *job)
{
        json_t *body =
                json_pack("{s:s,s:s,s:{s:s,s:s,s:s},s:{s:s,s:s,s:s}}", "apiVersion", "v1", "kind", "Binding",
                          "metadata", "name", job->request->name, "namespace", job->request->namespace, "uid",
                          job->request->uid, "target", "apiVersion", "v1", "kind", "Node", "name", job->request->node);
        long status = job_call(job, "POST", "/binding", NULL, body, NULL);

        json_decref(body);
        return status;
}

/* 0: bound; -EAGAIN: unknown, so the decision keeps counting (B1); else it is taken back. */
static int job_perform(struct job *job)
{
        long status = job->annotations ? job_patch_pod(job) : 200;
        struct object_pod seen;
        int r;

        if (status == 200)
                status = job_post_binding(job);
        if (status == 200 || status == 201)
                return 0;
        if (status == 404)
                return err_say(job->err, -ENOENT, "the pod is gone");
        if (status > 0 && status != 409 && status < 500)
                return -EIO;
        r = job_get_pod(job, &seen);
        if (r == 1)
                return 0;
        return r == 0 || r == -ENOENT || r == -EBUSY ? -EIO : -EAGAIN;
}

static void job_commit(struct job *job, int outcome)
{
        struct cluster_pod *pod;

        lock_take(job->binder->lock);
        pod = pod_of(job);
        if (pod && job->is_assumed)
                pod->is_binding = false;
        if (outcome < 0 && outcome != -EAGAIN && job->is_assumed)
                cluster_forget(&job->binder->extend->cluster, job->request->uid);
        lock_drop(job->binder->lock);
        json_decref(job->annotations);
}

/* Names become part of a path; those that the API server gives out have these letters only. */
static bool is_name(const char *text, size_t most)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
        size_t n = text ? strspn(text, letters) : 0;

        return n && n < most && !text[n] && text[0] != '.';
}

int bind_pod(struct binder *binder, const struct bind_request *request, struct err *err)
{
        struct job job = { .binder = binder, .request = request, .err = err };
        struct object_pod seen;
        int r;

        if (!is_name(request->name, OBJECT_NAME) || !is_name(request->namespace, OBJECT_LABEL) ||
            !is_name(request->uid, OBJECT_LABEL) || !is_name(request->node, OBJECT_NAME))
                return err_say(err, -EINVAL, "the request lacks a valid PodName, PodNamespace, PodUID or Node");
        job.client = client_borrow(binder);
        if (!job.client)
                return err_set(err, -ENOMEM, "binding");
        r = job_prepare_locked(&job);
        if (r == -EAGAIN) {
                r = job_get_pod(&job, &seen);
                r = r < 0 ? r : job_prepare_with(&job, &seen);
        }
        if (r == 0) {
                r = job_perform(&job);
                job_commit(&job, r);
        } else if (r < 0 && job.is_assumed)
                job_commit(&job, r);
        client_return(binder, job.client);
        return r < 0 ? r : 0;
}
