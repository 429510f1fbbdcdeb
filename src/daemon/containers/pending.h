/*
 * Containers on their way to a lease. A container comes by its hook, by its listener, or by both, the hook first:
 *
 *      hook       asks; it is granted a lease, which is kept for the container until its listener comes, its first process
 *                 is gone, or KEPT_SEC have passed; or it is refused, and the runtime does not start the container
 *      listener   starts the tenant's shim, with the lease that is kept or with a new one
 *
 * A process that the runtime puts into a running container (exec) comes with a listener of its own, and joins the
 * container's tenant; where that has none, it has no GPU either.
 *
 * What is allocated to a pod's container may be told, or be free again, a moment later than the container comes: it waits,
 * PATIENCE_SEC at most, and its driver calls with it. A listener that is refused is closed: the container has no GPU,
 * for good (the kernel answers ENOSYS).
 *
 * Thread: the loop.
 */
#pragma once

#include "daemon/state/daemon.h"
#include "oci/state.h"

struct pending_container;

/* Who asked for a container, and is answered later; embedded in what the caller has for it. */
struct pending_asker {
        void (*answer)(struct pending_asker *asker, int r, const struct tenant *tenant, const char *why);
};

enum {
        PENDING_E_NONE = 1, /* it asks for nothing: it may start, without a GPU */
        PENDING_E_LATER,    /* asker->answer will be called */
};

/* A hook asks. 0: granted, to *ret_tenant; PENDING_E_NONE; PENDING_E_LATER; -errno with a line for the one who started
 * the container. */
int pending_ask(struct daemon *daemon, const struct oci_container *container, uid_t uid, struct pending_asker *asker,
                const struct tenant **ret_tenant, struct err *err);

/* The asker has gone, and is told nothing any more. Its lease is kept. */
void pending_forget(struct daemon *daemon, const struct pending_asker *asker);

/* The runtime gave the container up: what was kept for it returns. */
void pending_drop(struct daemon *daemon, const char *id);

/* A listener came; it is taken over. Whatever becomes of it is told as an event. */
void pending_listener(struct daemon *daemon, const struct oci_container *container, uid_t uid, int listener);

void pending_tick(struct daemon *daemon); /* those who wait */
void pending_close(struct daemon *daemon);
