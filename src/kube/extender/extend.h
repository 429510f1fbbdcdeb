/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's requests, answered from the copy of the cluster: which nodes can take a pod, how good each is, which
 * pods would have to leave. The wire format is k8s.io/kube-scheduler/extender/v1, with Go's member names.
 *
 * Threads: one at a time, as for struct cluster. Texts and values returned belong to the caller; NULL: no memory.
 */
#pragma once

#include "kube/extender/extender_args.h"
#include "kube/extender/verdict.h"

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
