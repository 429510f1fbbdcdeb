/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers on their way to a lease. A container is announced by its hook, by its listener, or by both, the hook
 * first:
 *
 *      hook       asks for a lease. A granted lease is kept for the container until its listener comes or its first
 *                 process is gone; KEPT_SEC where that process is not known. A container may be made long before it is
 *                 started. If it is refused, the runtime does not start the container
 *      listener   starts the tenant's shim, with the kept lease or with a new one
 *
 * A process that the runtime adds to a running container (exec) has a listener of its own and joins the container's
 * tenant; without a tenant it gets no GPU.
 *
 * The allocation of a pod's container may be reported, or become free again, a moment after the container comes. Then
 * the container waits for settings.patience at most, and its driver calls wait with it. A refused listener is closed:
 * the container has no GPU, for good (the kernel answers ENOSYS).
 *
 * This room may admit tenants and start their shims; daemon/ hands it its connections. Thread: the loop.
 */
#pragma once

#include "daemon/state/daemon.h"
#include "oci/state.h"

struct pending_container;

/* A hook that is answered later; embedded in the caller's connection. */
struct pending_asker {
        void (*answer)(struct pending_asker *asker, int r, const struct tenant *tenant, const char *why);
};

enum {
        PENDING_E_NONE = 1, /* it asks for nothing: it may start, without a GPU */
        PENDING_E_LATER,    /* asker->answer will be called */
};

/* A hook asks. 0: granted, to *ret_tenant; PENDING_E_NONE; PENDING_E_LATER; -errno with a line for the user. */
int pending_ask(struct daemon *daemon, const struct oci_container *container, uid_t uid, struct pending_asker *asker,
                const struct tenant **ret_tenant, struct err *err);

/* The asker has gone and gets no answer any more. Its lease is kept. */
void pending_forget(struct daemon *daemon, const struct pending_asker *asker);

/* The runtime gave the container up: its lease returns. */
void pending_drop(struct daemon *daemon, const char *id);

/* A listener came; it is taken over. Its refusal is an event. */
void pending_listener(struct daemon *daemon, const struct oci_container *container, uid_t uid, int listener);

void pending_tick(struct daemon *daemon, nsec now); /* containers that wait are tried again; ten times a second */
void pending_close(struct daemon *daemon);
