/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a node can take a pod, and on which devices, by the copy of the cluster; and why it cannot.
 *
 * Threads: one at a time, as for struct cluster.
 */
#pragma once

#include "kube/extender/cluster.h"

struct extend {
        struct cluster cluster;
        enum placement_policy policy;
        /* The shape of the last request. Each node keeps its verdict on that shape (cluster_memo). */
        uint32_t shape;
        struct placement_want wants[PLACEMENT_WANTS];
        size_t n_wants;
        bool is_together, has_swap;
        uint64_t n_counted;
        nsec now; /* clock_now of the call at hand; for jobs.h. The caller sets it */
};

static inline struct placement_request extend_request(const struct object_pod *pod)
{
        return (struct placement_request){ pod->wants, pod->n_wants, pod->is_together, pod->has_swap };
}

enum {
        EXTEND_WHY = 256,
};

/* The verdict on a node for this pod's shape; kept by the node until it is counted again. */
struct cluster_memo extend_verdict(struct extend *extend, const struct object_pod *pod, struct cluster_node *node);

/* Picks devices on this node. PLACEMENT_OK and *ret; else PLACEMENT_E_x and the reason in `why`. */
int extend_pick(const struct extend *extend, const char *node, const struct object_pod *pod, struct placement *ret,
                char why[static EXTEND_WHY]);

/* Why an outcome that is not PLACEMENT_OK. node: NULL: not known. */
void extend_reason(const struct cluster_node *node, const struct object_pod *pod, int outcome,
                   char why[static EXTEND_WHY]);

/* Whether all devices of a pod with a place (is_placed) are there still, and healthy. */
bool extend_is_place_good(const struct cluster_pod *pod);
