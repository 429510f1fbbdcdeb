/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extender's copy of nodes and pods: what the API server has shown, and decisions that it has not shown yet.
 *
 *  C1  What a device has promised is the sum over the pods placed on it. A pod counts once (by its UID), whatever is
 *      reported of it and in whichever order.
 *  C2  A decision counts from the moment it is made (cluster_assume) until the API server shows the pod bound, over or
 *      gone, or until cluster_forget. A report from before the decision does not undo it.
 *  C3  A bound pod without a known device counts on every device of its node: too much, never too little.
 *  C4  A pod that has succeeded holds nothing, on no node; it is kept for its job, if it has one (jobs.h J5).
 *
 * Threads: one at a time; the owner locks. No input or output.
 */
#pragma once

#include "kube/extender/object.h"

#include "base/clock.h"
#include "base/map.h"

/* The pods of a namespace that name one job (jobs.h, whose the times are; clock_now). */
struct cluster_job {
        struct cluster_job *next;
        struct cluster_pod *pods;
        nsec reserved_at; /* when its pods got places, or one of them was last bound; 0: none has a place to wait for */
        nsec not_before;  /* no places until then */
        nsec unfit_until; /* younger jobs do not wait for it until then */
        nsec resumed_at;  /* when it was tried of its own last; 0: never */
        nsec resume_at, resume_pause; /* not of its own before then, which was so long; a pause of 0: none */
        nsec nudged_at;               /* 0: never since it was given places */
        unsigned int n_bound;         /* when reserved_at was set */
        char namespace[OBJECT_LABEL], name[OBJECT_LABEL];
};

struct cluster_pod {
        struct cluster_pod *next;      /* of the same hash */
        struct cluster_pod *next_here; /* on the same node */
        struct cluster_node *node;     /* where it counts; NULL: nowhere */
        char *name, *namespace, *uid;  /* one block with the pod */
        char *containers;              /* n_wants names, each with a NUL */
        struct cluster_job *job;       /* NULL: none */
        struct cluster_pod *next_of_job;
        unsigned int job_pods;
        char created[OBJECT_TIME];
        int priority;
        unsigned int round; /* of the last list that contained it */
        bool is_assumed;    /* decided here, not yet shown by the API server */
        bool is_reserved;   /* assumed for its job, by jobs.c */
        bool is_tried;      /* that, on trial */
        bool is_leaving;    /* it was deleted, or has succeeded */
        bool has_succeeded; /* and counts for its job only */
        bool is_bound;      /* the API server has shown it */
        bool is_binding;    /* a call about it is under way; set by the binder */
        bool is_placed;     /* `devices` is known */
        bool is_together, has_swap, tolerates_cordon;
        const char *problem;
        unsigned char n_wants;
        unsigned char devices[PLACEMENT_WANTS];
        struct placement_want wants[]; /* n_wants */
};

/* The verdict on a node for one shape of pod (extend.c). Counting the node again discards it. */
struct cluster_memo {
        uint32_t shape; /* 0: no verdict */
        unsigned char outcome, score;
};

struct cluster_node {
        struct cluster_node *next; /* of the same hash */
        struct cluster_pod *pods;
        unsigned int round;
        bool is_known; /* the API server has shown it; else only pods have named it */
        bool is_cordoned;
        const char *problem;
        size_t n_devices;
        struct placement_device *devices;
        char (*uuids)[OBJECT_UUID];
        bytes swap;     /* of the host, for pods with swap */
        bool is_spread; /* one of these has several devices */
        struct cluster_memo memo;
        char name[]; /* with a NUL */
};

struct cluster {
        struct map nodes, pods; /* by hash */
        struct cluster_job *jobs;
        size_t n_nodes, n_pods, n_assumed;
        unsigned int node_round, pod_round;
        struct placement_mix mix; /* of what pods ask for */
        uint64_t n_counted;       /* sizes that went into the mix */
        bytes unit;
};

void cluster_done(struct cluster *cluster);

/* What the API server shows. -ENOMEM: nothing was stored. */
int cluster_put_node(struct cluster *cluster, const struct object_node *node);
int cluster_put_pod(struct cluster *cluster, const struct object_pod *pod); /* a pod without wants is dropped */
void cluster_drop_node(struct cluster *cluster, const char *name);
void cluster_drop_pod(struct cluster *cluster, const char *uid);

/* A list: begin, put every object, end. What was known before and is not in the list has been deleted, decisions about
 * it too. The list must be current, not from a cache. */
void cluster_list_begin(struct cluster *cluster, bool is_pods);
void cluster_list_end(struct cluster *cluster, bool is_pods);

/* A node that the API server has shown, or NULL. Callers change nothing but its memo. */
struct cluster_node *cluster_node(const struct cluster *cluster, const char *name);
const struct cluster_pod *cluster_pod(const struct cluster *cluster, const char *uid);

/* A decision; it counts at once. 0; -EBUSY: the pod counts somewhere already; -ENOENT: no such pod or node. */
int cluster_assume(struct cluster *cluster, const char *uid, const char *node, const struct placement *placement);
void cluster_forget(struct cluster *cluster, const char *uid); /* harmless once the API server has shown the binding */

/* For cluster.c: of the job that it names, if it names one; a job without pods is none. 0; -ENOMEM. */
int cluster_job_join(struct cluster *cluster, struct cluster_pod *pod, const struct object_pod *from);
void cluster_job_leave(struct cluster *cluster, struct cluster_pod *pod);

/* The pod as it was read. */
void cluster_pod_get(const struct cluster_pod *pod, struct object_pod *ret);

/* The node as it is; and, with copies of its devices in `to`, as if the pods `without` (UIDs) were gone. */
struct placement_node cluster_view(const struct cluster_node *node);
struct placement_node cluster_view_without(const struct cluster_node *node, const char *const *without,
                                           size_t n_without, struct placement_device to[static PLACEMENT_DEVICES]);
