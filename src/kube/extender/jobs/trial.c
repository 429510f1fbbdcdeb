/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/jobs/trial.h"

#include <string.h>

enum {
        OLDER_MOST = 8, /* jobs that one is compared with */
};

struct jobs_census jobs_count(const struct cluster_job *job)
{
        struct jobs_census is = { .priority = INT32_MIN, .created = "" };

        for (const struct cluster_pod *pod = job->pods; pod; pod = pod->next_of_job) {
                is.n_succeeded += pod->has_succeeded;
                if (pod->is_leaving)
                        continue;
                is.n++;
                is.n_bound += pod->node && !pod->is_reserved;
                is.n_placed += pod->is_reserved;
                is.n_wanted = pod->job_pods > is.n_wanted ? pod->job_pods : is.n_wanted;
                is.priority = pod->priority > is.priority ? pod->priority : is.priority;
                if (!*is.created || strcmp(pod->created, is.created) < 0)
                        is.created = pod->created;
        }
        if (is.n_succeeded >= is.n_wanted) /* the job is done: what is there now is another one of its name */
                is.n_succeeded = 0;
        return is;
}

bool jobs_is_whole(const struct jobs_census *is)
{
        return is->n_bound || is->n + is->n_succeeded >= is->n_wanted;
}

bool jobs_waits(const struct jobs_census *is)
{
        return jobs_is_whole(is) && is->n_bound + is->n_placed < is->n;
}

/* J4, J5. Equal ones by name, so that there is an order. */
static bool goes_before(const struct cluster_job *a, const struct cluster_job *b)
{
        const struct jobs_census is_a = jobs_count(a), is_b = jobs_count(b);
        int r;

        if (!is_a.n_bound != !is_b.n_bound)
                return is_a.n_bound;
        if (is_a.priority != is_b.priority)
                return is_a.priority > is_b.priority;
        r = strcmp(is_a.created, is_b.created);
        r = r ? r : strcmp(a->namespace, b->namespace);
        return (r ? r : strcmp(a->name, b->name)) < 0;
}

bytes jobs_size_of(const struct cluster_pod *pod)
{
        bytes sum = 0;

        for (size_t i = 0; i < pod->n_wants; i++)
                if (__builtin_add_overflow(sum, pod->wants[i].memory, &sum))
                        return UINT64_MAX;
        return sum;
}

struct cluster_pod *jobs_next_pod(const struct cluster_job *job)
{
        struct cluster_pod *best = NULL;

        for (struct cluster_pod *pod = job->pods; pod; pod = pod->next_of_job)
                if (!pod->node && !pod->is_leaving && (!best || jobs_size_of(pod) > jobs_size_of(best)))
                        best = pod;
        return best;
}

const char *jobs_place_one(struct extend *extend, struct cluster_pod *pod, const struct jobs_nodes *nodes)
{
        struct cluster_node *best = NULL;
        struct placement placement;
        unsigned int best_score = 0;
        struct object_pod wants;
        char why[EXTEND_WHY];

        cluster_pod_get(pod, &wants);
        for (size_t i = 0; i < nodes->n; i++) {
                struct cluster_memo memo = extend_verdict(extend, &wants, nodes->list[i]);

                if (memo.outcome != PLACEMENT_OK || (nodes->list[i]->is_cordoned && !pod->tolerates_cordon) ||
                    (best && memo.score <= best_score))
                        continue;
                best = nodes->list[i];
                best_score = memo.score;
        }
        if (!best || extend_pick(extend, best->name, &wants, &placement, why) != PLACEMENT_OK ||
            cluster_assume(&extend->cluster, pod->uid, best->name, &placement) < 0)
                return NULL;
        pod->is_reserved = true;
        return best->name;
}

void jobs_try_end(struct extend *extend, struct cluster_job *job, bool is_kept)
{
        for (struct cluster_pod *pod = job->pods; pod; pod = pod->next_of_job) {
                if (pod->is_tried && !is_kept)
                        cluster_forget(&extend->cluster, pod->uid);
                pod->is_tried = false;
        }
}

bool jobs_try(struct extend *extend, struct cluster_job *job, const struct jobs_nodes *nodes,
              const struct cluster_pod **ret)
{
        struct cluster_pod *pod;

        while ((pod = jobs_next_pod(job)) != NULL) {
                pod->is_tried = jobs_place_one(extend, pod, nodes);
                if (pod->is_tried)
                        continue;
                *ret = pod;
                jobs_try_end(extend, job, false);
                return false;
        }
        return true;
}

/* Jobs that wait and go before this one, first things first: the first ones, if there are more than OLDER_MOST. */
static size_t find_older(const struct extend *extend, const struct cluster_job *job,
                         struct cluster_job *to[static OLDER_MOST])
{
        size_t n = 0;

        for (struct cluster_job *other = extend->cluster.jobs; other; other = other->next) {
                const struct jobs_census is = jobs_count(other);
                size_t at = n;

                if (other == job || other->reserved_at || !jobs_waits(&is) || extend->now < other->not_before ||
                    extend->now < other->unfit_until || !goes_before(other, job))
                        continue;
                if (n == OLDER_MOST && !goes_before(other, to[--at]))
                        continue; /* else the last makes room */
                for (; at && goes_before(other, to[at - 1]); at--)
                        to[at] = to[at - 1];
                to[at] = other;
                n += n < OLDER_MOST;
        }
        return n;
}

/* All that could have places get them on trial, and then this job. */
const struct cluster_job *jobs_must_wait_for(struct extend *extend, struct cluster_job *job,
                                             const struct jobs_nodes *nodes)
{
        const struct cluster_job *blocks = NULL;
        const struct cluster_pod *misfit;
        struct cluster_job *older[OLDER_MOST];
        size_t n = find_older(extend, job, older);

        for (size_t i = 0; i < n; i++)
                if (jobs_try(extend, older[i], nodes, &misfit) && !blocks)
                        blocks = older[i];
        if (blocks && jobs_try(extend, job, nodes, &misfit))
                blocks = NULL;
        jobs_try_end(extend, job, false);
        for (size_t i = 0; i < n; i++)
                jobs_try_end(extend, older[i], false);
        return blocks;
}
