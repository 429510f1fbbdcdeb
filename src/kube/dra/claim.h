/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ResourceClaim (resource.k8s.io/v1) and the pods it is reserved for, read into rows of the daemon's table of
 * allocations. Pure.
 *
 *  C1  The amount and the device are the scheduler's: status.allocation. Nothing in a pod or in the claim's spec can
 *      raise them.
 *  C2  What is allocated once is one container's. A device of a claim that several containers use, of one pod or of
 *      several, is refused: each would have the whole amount.
 *  C3  A pod is served only where the gate reaches it: in our runtime class, without privileged containers, under the
 *      class's own seccomp profile, and without its node's processes or sockets (kube/client/reach.h). Whoever reads
 *      the pod later than this reads the same: these fields never change.
 *  C4  Parameters of a device's configuration that are not known are refused, never skipped (terms.h).
 */
#pragma once

#include "base/text.h"
#include "kube/dra/terms.h"

#include <jansson.h>
#include <stdint.h>

struct err;

#define DRA_API "/apis/resource.k8s.io/v1"

enum {
        CLAIM_PODS = 16,        /* that one claim may be reserved for, as far as we serve it */
        CLAIM_DEVICE_NAME = 64, /* a device's UUID in lower case */
};

struct claim_view {
        const char *node, *runtime_class; /* of this node; that of the gate */
        const json_t *devices;            /* the daemon's answer to /v1/devices */
        const json_t *claim;
        const json_t *const *pods; /* those of claim_pods, as the API server has them */
        size_t n_pods;
};

/* What a claim has: {"devices":[{"request","device","uuid"}],"rows":[as PUT /v1/allocations takes them]}. The
 * caller's. 0; -EINVAL, -ENOENT, -EPERM, -EBUSY with err: not this way; -ENOMEM. */
int claim_read(const struct claim_view *view, json_t **ret, struct err *err);

/* The pods it is reserved for. Borrowed from the claim. Returns their number; -EINVAL, -E2BIG with err. */
struct claim_pod {
        const char *name, *uid;
};
int claim_pods(const json_t *claim, struct claim_pod ret[static CLAIM_PODS], struct err *err);

/* A device's name in slices and claims, from its UUID. */
void claim_device_name(const char *uuid, char ret[static CLAIM_DEVICE_NAME]);

/* The text at a key of an object; "" if there is none. Borrowed from it. */
const char *claim_text(const json_t *json, const char *key);

/* A quantity of Kubernetes in thousandths: "4Gi", "30", "12500m", "4e9"; in the form that the API server gives it,
 * which has no decimal point. 0; -EINVAL; -ERANGE. */
int claim_quantity(const char *text, uint64_t *ret_thousandths);
