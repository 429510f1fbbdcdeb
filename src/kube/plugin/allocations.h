/*
 * The table of allocations that the daemon is told: which container of which pod has how much of which device. Pure.
 *
 *  A1  how much is what kubelet allocated, counted from the ids of its checkpoint; nothing that a pod says makes it more. Where the
 *      extender wrote another amount on the pod, the smaller one counts;
 *  A2  the device is the one that the ids are on; where the extender places (pods), it is the one that stands on the pod, for kubelet's
 *      choice of ids says nothing then;
 *  A3  a row that does not say it all is left out, with the reason: its container gets no lease.
 */
#pragma once

#include "kube/plugin/checkpoint.h"
#include "kube/plugin/plugin.h"
#include "kube/plugin/pods.h"

enum {
        ALLOCATIONS_WHY = 256,
};

struct allocations_view {
        const struct checkpoint *checkpoint;
        const struct plugin_resource *resources;
        size_t n_resources;
        const struct plugin_node *node;
        const struct pods *pods; /* what is known of them; NULL: nothing, then names are empty */
        bool is_placed;
};

struct allocations {
        json_t *table; /* {"allocations":[...]}, the body of PUT /v1/allocations; the caller's */
        size_t n, n_left_out;
        char why[ALLOCATIONS_WHY]; /* the last that was left out, or counts for less; "" */
};

/* 0; -ENOMEM. */
int allocations_make(const struct allocations_view *view, struct allocations *ret);
