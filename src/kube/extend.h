/*
 * The scheduler's questions, answered from what is known of the cluster: what may a pod go on, which is best, who would
 * have to leave. JSON in, JSON out; the wire is k8s.io/kube-scheduler/extender/v1, whose names are Go's as they are.
 *
 * Threads: as the cluster's. Every function returns a new value, the caller's; NULL: no memory.
 */
#pragma once

#include "kube/cluster.h"

struct extend {
        struct cluster cluster;
        enum place_policy policy;
};

/* ExtenderArgs in; ExtenderFilterResult, HostPriorityList, ExtenderPreemptionResult out. What cannot be read is an Error
 * (filter), or an empty answer. */
json_t *extend_filter(const struct extend *extend, const json_t *args);
char *extend_prioritize(const struct extend *extend, const json_t *args); /* as text, from malloc */
json_t *extend_preempt(const struct extend *extend, const json_t *args);

/* gpushare's inspect: of one node, or of all (NULL), in units of memory. */
json_t *extend_inspect(const struct extend *extend, const char *node);

enum {
        EXTEND_WHY = 256,
};

/* A place on this node: PLACE_OK, and *ret; else why not, for people. */
int extend_pick(const struct extend *extend, const char *node, const struct object_pod *pod, struct place *ret,
                char why[static EXTEND_WHY]);
