/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemons of a cluster report of their tenants, for `kubectl sublet`: memory held, and GPU time of the last
 * second. They are reached through the API server, first by its proxy to the daemon's pod, then by running `sublet ps`
 * in that pod: a daemon refuses a Host header that is not its own, and the API server passes on the one it was reached
 * by.
 */
#pragma once

#include "kube/kubectl/kubectl.h"

#include "base/text.h"

struct observe {
        json_t *tenants; /* an object: node name to the array of its daemon's tenants */
};

/* pods: a PodList with the daemons, which are in `namespace`. Nodes that do not answer are missing. 0; -ENOMEM. */
int observe_ask(const struct kubectl *kubectl, const json_t *pods, const char *namespace, struct observe *ret);
void observe_done(struct observe *observe);

struct observe_sum {
        bytes held;
        unsigned int busy; /* permille of the last second */
        size_t n;          /* tenants in the sum */
};

/* Sums over the device's tenants of this container; pod_uid NULL: over all. false: this node did not answer. */
bool observe_sum(const struct observe *observe, const char *node, size_t device, const char *pod_uid,
                 const char *container, struct observe_sum *ret);
