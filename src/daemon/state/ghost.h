/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a tenant is a ghost: one of a pod's container that kubelet has forgotten before it was ever started. A
 * kubelet that is killed while a runtime makes a container leaves its first process behind, which waits for ever to be
 * told to start. Its filter is installed, so its tenant would live, and hold memory and share, as long.
 *
 *      G1  only a container whose lease came by an allocation of kubelet's table can be one;
 *      G2  only time counts in which the table is reported and its allocation is not in it. A plugin that has died, or
 *          has not reported since this daemon began, ends nobody, and the time counts anew after that;
 *      G3  only a container that was never started: all its processes are the runtime's own, before they become the
 *          image's. One process of which that is not certain, and the tenant stays.
 *
 * A tenant without any process needs no judge: its filter has gone with the last one, and its shim ends.
 * A program that makes itself look like the runtime's ends its own tenant, after its pod is gone, and nobody else's.
 *
 * Pure.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>

#define GHOST_GONE (25 * NSEC_PER_SEC)  /* without an allocation; none is to be older than 30 s after its pod */
#define GHOST_FRESH (15 * NSEC_PER_SEC) /* the device plugin sends the table every 10 s */
#define GHOST_AGAIN (5 * NSEC_PER_SEC)  /* from one look at its processes to the next */

/* Of one tenant; all 0 at first. clock_now. */
struct ghost {
        nsec gone_since; /* 0: its allocation is there, or nobody reports */
        nsec looked_at;  /* 0: never */
        bool is_told;    /* the event was emitted */
        bool is_none;    /* it was started once (G3): for good */
};

struct ghost_view {
        nsec now, reported_at; /* when the latest table came; 0: none since the daemon began */
        bool has_allocation;   /* in that table */
};

/* True: it is time to look at its processes (G2); the caller sets looked_at if it does. Asked again and again. */
bool ghost_is_due(struct ghost *ghost, const struct ghost_view *view);

/* What /proc says of one process, by files that the kernel fills without a look at the process's memory: cmdline could
 * hold the reader up for as long as the tenant likes. */
struct ghost_process {
        const char *cgroup;  /* the whole file */
        const char *program; /* the link exe; "": it cannot be read */
        const char *comm;    /* the whole file */
};

/* Whether the process is in the control group of the container with this id, in any hierarchy: a component of the path
 * is the id, or ends with it as systemd's scopes and CRI-O's groups do. */
bool ghost_is_of(const struct ghost_process *process, const char *id);

/* Whether it is "runc init", which has not become the container's program. (crun installs the filter later, when the
 * container is started: nothing of a container that it only made is a tenant's.) */
bool ghost_is_unstarted(const struct ghost_process *process);
