/* SPDX-License-Identifier: Apache-2.0 */
/* What an informer shows goes into the copy of the cluster. Threads: the informer's; the copy is locked. */
#pragma once

#include "kube/client/informer.h"
#include "kube/extender/cluster.h"

#include "base/lock.h"

struct feed {
        struct lock *lock;
        struct cluster *cluster;
        bool is_pods; /* else nodes */
};

/* Sets path and callbacks. */
void feed_watch(struct feed *feed, struct watch *watch);
