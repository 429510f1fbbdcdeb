/* SPDX-License-Identifier: Apache-2.0 */
/* Which pods are one job's. */
#include "kube/extender/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct cluster_job *find_or_add(struct cluster *cluster, const struct object_pod *from)
{
        struct cluster_job *job = cluster->jobs;

        while (job && (strcmp(job->name, from->job) != 0 || strcmp(job->namespace, from->namespace) != 0))
                job = job->next;
        if (job || !(job = calloc(1, sizeof(*job))))
                return job;
        memcpy(job->name, from->job, sizeof(job->name));
        memcpy(job->namespace, from->namespace, sizeof(job->namespace));
        job->next = cluster->jobs;
        cluster->jobs = job;
        return job;
}

int cluster_job_join(struct cluster *cluster, struct cluster_pod *pod, const struct object_pod *from)
{
        struct cluster_job *job = from->job_pods ? find_or_add(cluster, from) : NULL;

        if (!job)
                return from->job_pods ? -ENOMEM : 0;
        pod->job = job;
        pod->next_of_job = job->pods;
        job->pods = pod;
        return 0;
}

void cluster_job_leave(struct cluster *cluster, struct cluster_pod *pod)
{
        struct cluster_job *job = pod->job, **at_job = &cluster->jobs;
        struct cluster_pod **at;

        if (!job)
                return;
        for (at = &job->pods; *at != pod; at = &(*at)->next_of_job)
                ;
        *at = pod->next_of_job;
        if (job->pods)
                return;
        while (*at_job != job)
                at_job = &(*at_job)->next;
        *at_job = job->next;
        free(job);
}
