/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/jobs/jobs.h"

#include "base/cleanup.h"
#include "kube/extender/jobs/trial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RESUME_EVERY NSEC_PER_SEC /* a job that has begun and does not fit is tried again */

/* All that the API server has shown. NULL: no memory, or none. */
static struct cluster_node **all_nodes(const struct cluster *cluster, size_t *ret_n)
{
        struct cluster_node **list = calloc(cluster->n_nodes + 1, sizeof(*list)), *node;
        size_t n = 0;

        for (size_t i = 0; list && (node = map_next(&cluster->nodes, &i)) != NULL;)
                for (; node; node = node->next)
                        if (node->is_known)
                                list[n++] = node;
        *ret_n = n;
        return list;
}

/* ---- giving back ------------------------------------------------------------------------------- */

static void give_back(struct extend *extend, struct cluster_job *job)
{
        for (const struct cluster_pod *pod = job->pods; pod; pod = pod->next_of_job)
                if (pod->is_reserved)
                        cluster_forget(&extend->cluster, pod->uid);
        job->reserved_at = job->nudged_at = 0;
}

/* J8: a job that has begun keeps the other places. True: this one has lost one, and has not begun. */
static bool lose_places(struct extend *extend, struct cluster_job *job)
{
        bool is_lost = false;

        for (const struct cluster_pod *pod = job->pods; pod; pod = pod->next_of_job)
                if (pod->is_reserved && !extend_is_place_good(pod)) {
                        cluster_forget(&extend->cluster, pod->uid);
                        is_lost = true;
                }
        return is_lost && !jobs_count(job).n_bound;
}

/* J3, J6 */
static void pause_job(const struct extend *extend, struct cluster_job *job)
{
        nsec pause = job->resume_pause ? 2 * job->resume_pause : JOBS_PAUSE;

        job->not_before = extend->now + JOBS_PAUSE;
        job->resume_pause = pause < JOBS_RESUME_MOST ? pause : JOBS_RESUME_MOST;
        job->resume_at = extend->now + job->resume_pause;
}

static void tidy(struct extend *extend, struct cluster_job *job)
{
        const bool is_lost = lose_places(extend, job);
        const struct jobs_census is = jobs_count(job);

        if (!job->reserved_at)
                return;
        if (is.n_bound > job->n_bound) {
                job->n_bound = is.n_bound;
                job->reserved_at = extend->now;
                job->resume_pause = 0;
        }
        if (is_lost || !jobs_is_whole(&is))
                give_back(extend, job);
        else if (extend->now - job->reserved_at >= JOBS_HOLD) {
                if (is.n_placed)
                        pause_job(extend, job);
                give_back(extend, job);
        }
}

/* Marks the job's pods as having places to wait for. */
static void hold(const struct extend *extend, struct cluster_job *job)
{
        if (job->reserved_at)
                return;
        job->reserved_at = extend->now;
        job->nudged_at = 0;
        job->n_bound = jobs_count(job).n_bound;
}

/* J6: before anybody else is given a place. What the scheduler knows of nodes it will say when it asks (move). */
static void resume(struct extend *extend, struct cluster_job *job)
{
        const struct jobs_census is = jobs_count(job);
        const struct cluster_pod *misfit;
        struct jobs_nodes all;

        if (!is.n_bound || !jobs_waits(&is) || extend->now < job->not_before ||
            (job->resume_pause && extend->now < job->resume_at) ||
            (job->resumed_at && extend->now - job->resumed_at < RESUME_EVERY))
                return;
        job->resumed_at = extend->now;
        all.list = all_nodes(&extend->cluster, &all.n);
        if (all.list && jobs_try(extend, job, &all, &misfit)) {
                jobs_try_end(extend, job, true);
                hold(extend, job);
        }
        free(all.list);
}

void jobs_tidy(struct extend *extend)
{
        for (struct cluster_job *job = extend->cluster.jobs; job; job = job->next)
                tidy(extend, job);
        for (struct cluster_job *job = extend->cluster.jobs; job; job = job->next)
                resume(extend, job);
}

/* ---- what the scheduler asks ------------------------------------------------------------------- */

static void say_incomplete(const struct cluster_job *job, const struct jobs_census *is, char why[static EXTEND_WHY])
{
        (void)snprintf(why, EXTEND_WHY, "its job '%s' has %u of %u pods: none of them starts before all are there",
                       job->name, is->n + is->n_succeeded, is->n_wanted);
}

static void say_misfit(const struct cluster_job *job, const struct jobs_census *is, const struct cluster_pod *pod,
                       char why[static EXTEND_WHY])
{
        char size[BYTES_TEXT];

        (void)snprintf(why, EXTEND_WHY, "the %u pods of its job '%s' do not fit at once: no place for %.63s (%s)",
                       is->n - is->n_bound, job->name, pod->name, bytes_format(jobs_size_of(pod), size));
}

/* Gives places to all that wait. */
static bool reserve(struct extend *extend, struct cluster_job *job, const struct jobs_nodes *nodes,
                    char why[static EXTEND_WHY])
{
        const struct jobs_census is = jobs_count(job);
        const struct cluster_pod *misfit = NULL;
        const struct cluster_job *older;

        if (!jobs_is_whole(&is)) {
                say_incomplete(job, &is, why);
                return false;
        }
        if (extend->now < job->not_before) {
                (void)snprintf(why, EXTEND_WHY, "its job '%s' gave its places back; it gets new ones in %d s at most",
                               job->name, (int)((job->not_before - extend->now) / NSEC_PER_SEC) + 1);
                return false;
        }
        older = job->reserved_at ? NULL : jobs_must_wait_for(extend, job, nodes);
        if (older) {
                (void)snprintf(why, EXTEND_WHY, "job '%s' of namespace %s goes before its job '%s', and fits",
                               older->name, older->namespace, job->name);
                return false;
        }
        if (!jobs_try(extend, job, nodes, &misfit)) {
                say_misfit(job, &is, misfit, why);
                job->unfit_until = extend->now + JOBS_UNFIT;
                return false;
        }
        jobs_try_end(extend, job, true);
        hold(extend, job);
        return true;
}

static bool has(const struct jobs_nodes *nodes, const struct cluster_node *node)
{
        for (size_t i = 0; i < nodes->n; i++)
                if (nodes->list[i] == node)
                        return true;
        return false;
}

/* Its place is on a node that the scheduler does not offer: on another one, if it fits there. */
static const char *move(struct extend *extend, struct cluster_pod *pod, const struct jobs_nodes *nodes)
{
        struct placement old;
        char name[OBJECT_NAME];
        const char *there;

        if (!pod->is_reserved)
                return NULL;
        memcpy(old.device, pod->devices, sizeof(old.device));
        (void)snprintf(name, sizeof(name), "%s", pod->node->name);
        cluster_forget(&extend->cluster, pod->uid);
        there = jobs_place_one(extend, pod, nodes);
        if (!there)
                pod->is_reserved = cluster_assume(&extend->cluster, pod->uid, name, &old) == 0;
        return there;
}

static struct cluster_pod *pod_find(const struct extend *extend, const char *uid)
{
        /* The copy is this owner's to change. */
        return (struct cluster_pod *)(uintptr_t)cluster_pod(&extend->cluster, uid);
}

const char *jobs_place(struct extend *extend, const char *uid, const struct jobs_nodes *nodes,
                       char why[static EXTEND_WHY])
{
        struct cluster_pod *pod = pod_find(extend, uid);
        const char *there;

        why[0] = '\0';
        if (!pod || !pod->job) {
                (void)snprintf(why, EXTEND_WHY, "the pod is not known yet, and so not its job");
                return NULL;
        }
        pod->job->resume_pause = 0; /* the scheduler has found nodes for it */
        if (!jobs_next_pod(pod->job) && pod->node && has(nodes, pod->node))
                return pod->node->name;
        if (jobs_next_pod(pod->job) && !reserve(extend, pod->job, nodes, why)) {
                const struct jobs_census is = jobs_count(pod->job);

                if (!is.n_bound)
                        give_back(extend, pod->job);
                else if (pod->node && has(nodes, pod->node))
                        return pod->node->name;
                return NULL;
        }
        if (!pod->node) {
                (void)snprintf(why, EXTEND_WHY, "the pod is being deleted");
                return NULL;
        }
        there = has(nodes, pod->node) ? pod->node->name : move(extend, pod, nodes);
        if (!there)
                (void)snprintf(why, EXTEND_WHY, "the place of this pod of job '%s' is on node %.100s", pod->job->name,
                               pod->node ? pod->node->name : "?");
        return there;
}

int jobs_place_on(struct extend *extend, const char *uid, const char *node, char why[static EXTEND_WHY])
{
        struct cluster_node *only = cluster_node(&extend->cluster, node);
        const struct jobs_nodes one = { &only, 1 };
        struct cluster_pod *pod = pod_find(extend, uid);
        struct jobs_nodes all;
        _cleanup_(freep) struct cluster_node **list = all_nodes(&extend->cluster, &all.n);
        bool is_new = pod && !pod->node;
        struct jobs_census is;

        all.list = list;
        why[0] = '\0';
        if (!pod || !pod->job || !list)
                return -EAGAIN;
        if (!only) { /* it has gone since the place was reserved */
                (void)snprintf(why, EXTEND_WHY, "it is not known now");
                return -EAGAIN;
        }
        is = jobs_count(pod->job);
        if (is_new && jobs_is_whole(&is) && !jobs_place_one(extend, pod, &one)) {
                (void)snprintf(why, EXTEND_WHY, "it has no room for this pod of job '%s'", pod->job->name);
                return -EAGAIN;
        }
        if ((is_new || jobs_next_pod(pod->job)) && !reserve(extend, pod->job, &all, why)) {
                if (is_new)
                        cluster_forget(&extend->cluster, uid);
                if (!is.n_bound)
                        give_back(extend, pod->job);
        }
        return pod->node && !strcmp(pod->node->name, node) ? 0 : -EAGAIN;
}

/* ---- others' rights ---------------------------------------------------------------------------- */

/* J7 */
static bool yields(const struct cluster_job *job, int priority)
{
        return job->reserved_at && jobs_count(job).priority < priority;
}

static bool would_fit(const struct extend *extend, const struct object_pod *pod, const struct cluster_node *node)
{
        const struct placement_request request = extend_request(pod);
        struct placement_device devices[PLACEMENT_DEVICES];
        const char *without[OBJECT_JOB_PODS];
        struct placement_node view;
        struct placement placement;
        size_t n = 0;

        for (const struct cluster_pod *p = node->pods; p && n < ARRAY_SIZE(without); p = p->next_here)
                if (p->is_reserved && p->job && yields(p->job, pod->priority))
                        without[n++] = p->uid;
        if (!n)
                return false;
        view = cluster_view_without(node, without, n, devices);
        return placement_pick(&view, &request, extend->policy, &extend->cluster.mix, &placement) == PLACEMENT_OK;
}

bool jobs_yield(struct extend *extend, const struct object_pod *pod, const struct jobs_nodes *nodes)
{
        if (pod->problem || !pod->n_wants || pod->job_pods)
                return false;
        for (size_t i = 0; i < nodes->n; i++) {
                struct cluster_node *node = nodes->list[i];

                if (!would_fit(extend, pod, node))
                        continue;
                for (struct cluster_pod *p = node->pods, *next; p; p = next) {
                        next = p->next_here;
                        if (!p->is_reserved || !p->job || !yields(p->job, pod->priority))
                                continue;
                        p->job->not_before = extend->now + JOBS_PAUSE;
                        give_back(extend, p->job);
                        next = node->pods; /* other pods of that job have left the node, too */
                }
                return true;
        }
        return false;
}

void jobs_explain(struct extend *extend, const char *uid, char why[static EXTEND_WHY])
{
        struct jobs_nodes all;
        _cleanup_(freep) struct cluster_node **list = all_nodes(&extend->cluster, &all.n);

        all.list = list;
        why[0] = '\0';
        if (list && !jobs_place(extend, uid, &all, why))
                return;
        why[0] = '\0';
}

/* ---- nudges ------------------------------------------------------------------------------------ */

/* Whether it is worth the scheduler's while. A trial leaves nothing behind. */
static bool would_get_places(struct extend *extend, struct cluster_job *job, const struct jobs_nodes *all)
{
        const struct jobs_census is = jobs_count(job);
        const struct cluster_pod *misfit;

        if (!jobs_waits(&is) || extend->now < job->not_before || jobs_must_wait_for(extend, job, all) ||
            !jobs_try(extend, job, all, &misfit))
                return false;
        jobs_try_end(extend, job, false);
        return true;
}

static bool is_due(struct extend *extend, struct cluster_job *job, const struct jobs_nodes *all)
{
        nsec every = job->reserved_at ? JOBS_NUDGE : 2 * JOBS_NUDGE;

        if (job->nudged_at && extend->now - job->nudged_at < every)
                return false;
        return job->reserved_at ? jobs_count(job).n_placed > 0 : would_get_places(extend, job, all);
}

size_t jobs_nudges(struct extend *extend, struct jobs_nudge *ret, size_t room)
{
        struct jobs_nodes all;
        _cleanup_(freep) struct cluster_node **list = NULL;
        size_t n = 0;

        jobs_tidy(extend);
        if (!extend->cluster.jobs || !(list = all_nodes(&extend->cluster, &all.n)))
                return 0;
        all.list = list;
        for (struct cluster_job *job = extend->cluster.jobs; job; job = job->next) {
                if (jobs_count(job).n > room - n || !is_due(extend, job, &all))
                        continue;
                job->nudged_at = extend->now;
                for (const struct cluster_pod *pod = job->pods; pod; pod = pod->next_of_job) {
                        if (pod->is_leaving || (pod->node && !pod->is_reserved))
                                continue;
                        (void)snprintf(ret[n].namespace, OBJECT_LABEL, "%s", pod->namespace);
                        (void)snprintf(ret[n].name, OBJECT_NAME, "%s", pod->name);
                        (void)snprintf(ret[n].uid, OBJECT_LABEL, "%s", pod->uid);
                        n++;
                }
        }
        return n;
}
