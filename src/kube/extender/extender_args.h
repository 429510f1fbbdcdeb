/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's request: ExtenderArgs of k8s.io/kube-scheduler/extender/v1, a pod and either node names
 * (nodeCacheCapable) or whole nodes; for preempt, ExtenderPreemptionArgs.
 *
 *      _cleanup_(extender_args_done) struct extender_args args = { 0 };
 *      r = extender_args_read(body, size, unit, &args);
 *
 * Threads: any; nothing is shared.
 */
#pragma once

#include "kube/extender/object.h"

struct extender_args {
        json_t *root; /* the whole request; owned */
        bool has_pod;
        struct object_pod pod;
        const json_t *nodes; /* array of names, or of whole nodes; NULL: none; part of `root` */
        bool has_whole_nodes;
};

/* unit: bytes of one NAME_MEMORY. 0; -EINVAL: not a JSON object. */
int extender_args_read(const char *body, size_t size, bytes unit, struct extender_args *ret);
/* A name of a call's, for the log: anything may be sent, and only what looks like a name gets there; else "?". */
const char *extender_args_name_for_log(const json_t *args, const char *key);

void extender_args_done(struct extender_args *args);

/* Name of the i-th of `nodes`, borrowed; NULL: that entry has none. */
const char *extender_args_name(const struct extender_args *args, size_t i);
