/*
 * What Kubernetes has allocated on this node: which container of which pod has how much of which device.
 *
 * The device plugin tells it (PUT /v1/allocations), from what kubelet granted; nobody else may. A container of a pod
 * gets a lease by its row here and by nothing that it says itself:
 *      L1  the whole table is replaced, or nothing of it: there is no row that nobody allocates any more;
 *      L2  rows of one container, each another device, are one allocation;
 *      L3  an allocation is claimed by one living tenant at a time. Whose it is stands in the tenants' leases, not
 *          here: so a daemon that begins anew knows it, too.
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
        char namespace[ALLOCATION_LABEL], name[ALLOCATION_NAME]; /* for people; "": not told */
        char container[ALLOCATION_LABEL];
        bytes memory[LEASE_DEVICES_MAX]; /* 0: not on that device */
        permille share;                  /* 0: an equal part of what nobody was promised */
};

struct allocations {
        struct allocation *rows;
        size_t n;
        nsec received_at; /* clock_now; 0: never */
};

/* What a device is called beside its number. */
struct allocation_devices {
        unsigned int n;
        const char *uuids[LEASE_DEVICES_MAX];
};

/* The body of a PUT. On success *ret is the caller's; a row that is wrong is named in err, and nothing is read. 0; -EINVAL;
 * -ENOMEM. */
int allocations_read(const json_t *body, const struct allocation_devices *devices, struct allocations *ret,
                     struct err *err);
void allocations_done(struct allocations *allocations); /* also for _cleanup_ */

/* NULL: none. */
const struct allocation *allocations_find(const struct allocations *allocations, const char *pod,
                                          const char *container);
