/*
 * From a container to what it may be leased, and by whose word:
 *
 *      a pod's container       what kubelet allocated to it (allocations.h), and nothing else. What its annotations and
 *                              environment ask for can only make that less, and choose cap and class
 *      any other               its sublet.dev/ annotations, else SUBLET_... of its environment: who may start containers
 *                              here is root, and could `sublet run` as much
 *
 * Pure.
 */
#pragma once

#include "daemon/state/allocations.h"
#include "wire/messages.h"
#include "oci/state.h"
#include "daemon/state/admit.h"

enum {
        CONTAINER_REQUEST_E_NONE = 1, /* it asks for nothing and nothing is allocated to it */
        CONTAINER_REQUEST_E_LATER, /* not yet: the allocation is not told, or its last container is not gone; err says which */
};

/* What to ask admit for. 0; CONTAINER_REQUEST_E_NONE; CONTAINER_REQUEST_E_LATER; -EINVAL: what it asks for is not understood, or not offered. */
int container_request_fill(const struct tenants *tenants, const struct allocations *allocations,
                           const struct oci_container *container, const struct oci_request *asked,
                           struct message_request *ret, struct err *err);

/* Who it is, as its lease keeps it. */
void container_request_identity(const struct oci_container *container, struct message_container *ret);
