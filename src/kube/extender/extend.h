/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's requests, answered from the copy of the cluster: which nodes can take a pod, how good each is, which
 * pods would have to leave. The wire format is k8s.io/kube-scheduler/extender/v1, with Go's member names.
 *
 * Threads: one at a time, as for struct cluster. Texts and values returned belong to the caller; NULL: no memory.
 */
#pragma once

#include "kube/extender/cluster.h"
#include "kube/extender/extender_args.h"

struct extend {
        struct cluster cluster;
        enum placement_policy policy;
        /* The shape of the last request. Each node keeps its verdict on that shape (cluster_memo). */
        uint32_t shape;
        struct placement_want wants[PLACEMENT_WANTS];
        size_t n_wants;
        bool is_together;
        uint64_t n_counted;
};

/* ExtenderFilterResult, HostPriorityList, ExtenderPreemptionResult. A request without a Pod gets an Error from filter,
 * and an empty answer from the others. */
char *extend_filter(struct extend *extend, const struct extender_args *args, size_t *ret_size);
char *extend_prioritize(struct extend *extend, const struct extender_args *args, size_t *ret_size);
char *extend_preempt(struct extend *extend, const struct extender_args *args, size_t *ret_size);

/* gpushare's inspect, in units of memory. node: NULL for all. */
json_t *extend_inspect(const struct extend *extend, const char *node);

struct extend_totals {
        bytes memory, rented; /* of all devices */
        size_t n_unplaced;    /* bound pods whose device is not known */
};

void extend_count(const struct extend *extend, struct extend_totals *ret);

static inline struct placement_request extend_request(const struct object_pod *pod)
{
        return (struct placement_request){ pod->wants, pod->n_wants, pod->is_together };
}

enum {
        EXTEND_WHY = 256,
};

/* Picks devices on this node. PLACEMENT_OK and *ret; else PLACEMENT_E_x and the reason in `why`. */
int extend_pick(const struct extend *extend, const char *node, const struct object_pod *pod, struct placement *ret,
                char why[static EXTEND_WHY]);
