/*
 * The scheduler's questions, answered from what is known of the cluster: what may a pod go on, which is best, who would
 * have to leave. JSON in, JSON out; the wire is k8s.io/kube-scheduler/extender/v1, whose names are Go's as they are.
 *
 * Threads: as the cluster's. Every function returns a new value or text, the caller's; NULL: no memory.
 */
#pragma once

#include "kube/extender/cluster.h"
#include "kube/extender/extender_args.h"

struct extend {
        struct cluster cluster;
        enum placement_policy policy;
        /* What was asked for last; nodes remember what it found out about them. */
        uint32_t shape;
        struct placement_want wants[PLACEMENT_WANTS];
        size_t n_wants;
        bool is_together;
        uint64_t n_counted;
};

/* ExtenderFilterResult, HostPriorityList, ExtenderPreemptionResult. A question without a Pod: an Error (filter), or an empty
 * answer. preempt: of a question that was read whole. */
char *extend_filter(struct extend *extend, const struct extender_args *args, size_t *ret_size);
char *extend_prioritize(struct extend *extend, const struct extender_args *args, size_t *ret_size);
json_t *extend_preempt(const struct extend *extend, const struct extender_args *args);

/* gpushare's inspect: of one node, or of all (NULL), in units of memory. */
json_t *extend_inspect(const struct extend *extend, const char *node);

enum {
        EXTEND_WHY = 256,
};

/* A place on this node: PLACEMENT_OK, and *ret; else why not, for people. */
int extend_pick(const struct extend *extend, const char *node, const struct object_pod *pod, struct placement *ret,
                char why[static EXTEND_WHY]);
