/*
 * What the daemons of a cluster say of their tenants, for `kubectl sublet`: memory held and GPU time of the latest second.
 * Asked through the API server, first by its proxy to the daemon's pod, then by running `sublet ps` in it (a daemon
 * refuses names that are not its own, and the API server hands the one on by which it was reached itself).
 */
#pragma once

#include "kube/kubectl/kubectl.h"

#include "base/text.h"

struct observe {
        json_t *tenants; /* an object: of each node's name, the array of its daemon's tenants */
};

/* pods: the PodList in which the daemons are, in the namespace `space`. Nodes that do not answer are missing. 0; -ENOMEM. */
int observe_ask(const struct kubectl *kubectl, const json_t *pods, const char *namespace, struct observe *ret);
void observe_done(struct observe *observe);

struct observe_sum {
        bytes held;
        unsigned int busy; /* permille of the latest second */
        size_t n;          /* tenants that were summed up */
};

/* Of the device's tenants; pod, container: NULL: of all. false: nothing is known of this node. */
bool observe_sum(const struct observe *observe, const char *node, size_t device, const char *pod_uid,
                 const char *container, struct observe_sum *ret);
