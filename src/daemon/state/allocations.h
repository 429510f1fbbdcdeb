/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Kubernetes has allocated on this node: which container of which pod has how much of which device.
 *
 * Only the device plugin reports it (PUT /v1/allocations), from what kubelet granted. A pod's container gets a lease by
 * its row here, not by what it asks for:
 *      L1  the table is replaced as a whole, or not at all: no row outlives its allocation;
 *      L2  rows of one container, each for another device, are one allocation;
 *      L3  one living tenant at a time has an allocation. Which one is in the tenants' leases, not here: so a new
 *          daemon knows it, too.
 *
 * Pure. Thread: the loop.
 */
#pragma once

#include "lease/lease.h"
#include "daemon/state/tenants.h"

#include <jansson.h>

struct err;

enum {
        ALLOCATIONS_MAX = 1024, /* a node has 110 pods by default */
        ALLOCATION_LABEL = 64,  /* UID of a pod, a namespace, a container: with its NUL */
        ALLOCATION_NAME = 254,  /* of a pod */
};

struct allocation {
        char pod[ALLOCATION_LABEL];                              /* its UID */
        char namespace[ALLOCATION_LABEL], name[ALLOCATION_NAME]; /* for people; "": not given */
        char container[ALLOCATION_LABEL];
        bytes memory[LEASE_DEVICES_MAX]; /* 0: not on that device */
        permille share;                  /* 0: an equal part of the rest */
        struct allocation_terms {        /* as annotations have them (docs/containers.md); "": the container's choice */
                char cap[16], class[16], latency[16], swap[8], capabilities[64], group[64];
        } terms;
};

struct allocations {
        struct allocation *rows;
        size_t n;
        nsec received_at; /* clock_now; 0: never */
};

/* By which a row may name a device, beside its number. */
struct allocation_devices {
        unsigned int n;
        const char *uuids[LEASE_DEVICES_MAX];
};

/* Parses the body of a PUT. *ret is the caller's on success. 0; -EINVAL: err names the wrong row; -ENOMEM. */
int allocations_read(const json_t *body, const struct allocation_devices *devices, struct allocations *ret,
                     struct err *err);
void allocations_done(struct allocations *allocations); /* also for _cleanup_ */

/* What of each device is allocated to containers that are said to have no swap, and have no tenant now: they start, or
 * start again. No tenant with --swap may take it meanwhile, for none leaves for them. */
void allocations_keep(const struct allocations *allocations, const struct tenants *tenants,
                      bytes ret[static LEASE_DEVICES_MAX]);

/* NULL: none. */
const struct allocation *allocations_find(const struct allocations *allocations, const char *pod,
                                          const char *container);
