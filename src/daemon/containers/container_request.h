/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container may be leased, and who decides that:
 *
 *      a pod's container gets what kubelet allocated to it (allocations.h). Its annotations and environment can only
 *      lower
 *                              that, and choose cap and class
 *      any other gets what its sublet.dev/ annotations ask for, else SUBLET_... of its environment: only root
 *                              starts containers here, and could `sublet run` as much
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
        CONTAINER_REQUEST_E_LATER,    /* no allocation yet, or its last container is not gone; err says which */
};

/* The request for admit. 0; CONTAINER_REQUEST_E_NONE; CONTAINER_REQUEST_E_LATER; -EINVAL: it asks for something that is
 * not understood or not offered. */
int container_request_fill(const struct tenants *tenants, const struct allocations *allocations,
                           const struct oci_container *container, const struct oci_request *asked,
                           struct message_request *ret, struct err *err);

/* The identity that its lease keeps. */
void container_request_identity(const struct oci_container *container, struct message_container *ret);
