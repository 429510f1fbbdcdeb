/*
 * What the extender knows of nodes and pods: what the API server said, and what we have decided and it has not said yet.
 *
 *  C1  What a device has given is the sum over the pods placed on it; a pod counts once (by its UID), whatever is heard
 *      of it and in whichever order.
 *  C2  A decision counts from the moment it is made (cluster_assume) until the API server shows the pod bound, over or
 *      gone, or until cluster_forget. A report from before the decision does not undo it.
 *  C3  A bound pod that does not say on which device it is counts on every device of its node: too much, never too
 *      little.
 *
 * Threads: one at a time; the owner locks. No input or output.
 */
#pragma once

#include "kube/extender/object.h"

#include "base/map.h"

struct cluster_pod {
        struct cluster_pod *next;      /* of the same hash */
        struct cluster_pod *next_here; /* on the same node */
        struct cluster_node *node;     /* where it is counted; or NULL */
        char *name, *namespace, *uid;  /* one block with the pod */
        char *containers;              /* n_wants names, each with its NUL */
        int priority;
        unsigned int round; /* of the last list that had it */
        bool is_assumed;    /* we have decided, the API server has not said it */
        bool is_bound;      /* it has said it */
        bool is_binding;    /* a call about it is under way; the binder's */
        bool is_placed;     /* devices are known */
        bool is_together;
        const char *problem;
        unsigned char n_wants;
        unsigned char devices[PLACEMENT_WANTS];
        struct placement_want wants[]; /* n_wants */
};

/* What a question found out about a node, kept for the next of the same shape (extend.c). Counting anew voids it. */
struct cluster_memo {
        uint32_t shape; /* 0: nothing */
        unsigned char outcome, score;
};

struct cluster_node {
        struct cluster_node *next; /* of the same hash */
        struct cluster_pod *pods;
        unsigned int round;
        bool is_known; /* the API server has told us of it; else only pods have named it */
        const char *problem;
        size_t n_devices;
        struct placement_device *devices;
        char (*uuids)[OBJECT_UUID];
        struct cluster_memo memo;
        char name[]; /* its last, with a NUL */
};

struct cluster {
        struct map nodes, pods; /* by hash */
        size_t n_nodes, n_pods, n_assumed;
        unsigned int node_round, pod_round;
        struct placement_mix mix; /* of what pods ask for */
        uint64_t n_counted;       /* sizes that went into it */
        bytes unit;
};

void cluster_done(struct cluster *cluster);

/* What the API server says. -ENOMEM: it is not taken in. */
int cluster_put_node(struct cluster *cluster, const struct object_node *node);
int cluster_put_pod(struct cluster *cluster, const struct object_pod *pod); /* one without wants is dropped */
void cluster_drop_node(struct cluster *cluster, const char *name);
void cluster_drop_pod(struct cluster *cluster, const char *uid);

/*
 * A list: begin, put all of it, end; what it did not have is gone, also if there was a decision about it: whatever was
 * known before a list began, and is not in it, has been deleted. The list must be a current one, not of a cache.
 */
void cluster_list_begin(struct cluster *cluster, bool is_pods);
void cluster_list_end(struct cluster *cluster, bool is_pods);

/* A node that the API server has shown, or NULL. Callers change nothing but its memo. */
struct cluster_node *cluster_node(const struct cluster *cluster, const char *name);
const struct cluster_pod *cluster_pod(const struct cluster *cluster, const char *uid);

/* A decision, counted at once. 0; -EBUSY: the pod is counted somewhere already; -ENOENT: no such pod or node. */
int cluster_assume(struct cluster *cluster, const char *uid, const char *node, const struct placement *placement);
void cluster_forget(struct cluster *cluster, const char *uid); /* no harm if the API server has said it meanwhile */

/* The pod as it was read, for what is written about it. */
void cluster_pod_get(const struct cluster_pod *pod, struct object_pod *ret);

/* Copies of the node's devices without what `without` (UIDs) hold there. `to` has PLACEMENT_DEVICES. */
size_t cluster_devices_without(const struct cluster_node *node, const char *const *without, size_t n_without,
                               struct placement_device *to);
