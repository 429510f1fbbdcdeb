/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of allocations for the daemon: which container of which pod has how much of which device. Pure.
 *
 *  A1  The amount is what kubelet allocated, counted from the ids of its checkpoint; nothing in a pod can raise it. If
 *      the extender wrote another amount on the pod, the smaller one counts.
 *  A2  The device is that of the ids. Where the extender places, it is the one written on the pod, because kubelet's
 *      choice of ids means nothing then. Where that names several, each has an equal part of what kubelet allocated.
 *  A3  An incomplete row is left out, with the reason: its container gets no lease.
 *  A4  Where the extender places, it has counted whether a container has swap: the container itself, or its image, has
 *      no say in that.
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
        const struct pods *pods; /* NULL: not known, and names are empty */
        bool is_placed;
};

struct allocations {
        json_t *table; /* {"allocations":[...]}, the body of PUT /v1/allocations; the caller's */
        size_t n, n_left_out;
        char why[ALLOCATIONS_WHY]; /* of the last row left out or reduced; "": none */
};

/* 0; -ENOMEM. */
int allocations_make(const struct allocations_view *view, struct allocations *ret);
