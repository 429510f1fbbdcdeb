/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reconciler of a shim: a thread that makes the desired state in the control block (wire/control_block.h) true, and
 * enables all channels when no daemon maintains that state any more.
 *
 *      S1  A dead or silent daemon disables no tenant: channels are enabled again within 1 s.
 *      S2  A daemon is dead when its socket has hung up: the kernel closes the socket after the last of its threads has
 *          gone, so no call of the daemon is under way. Only then is its desired state removed from the control block.
 *      S3  A daemon is silent when its heartbeat is older than CONTROL_BLOCK_SILENT_MSEC. It may return: its desired
 *          state stays in the control block, is ignored, and applies again from the next heartbeat on.
 *      S4  The desired state may change during a call that applies it, so it is read again after the call.
 *
 * Blocks: driver calls, on this thread of the shim only (and on those that serve the tenant, for its own new channels).
 */
#pragma once

#include "gate/gate.h"
#include "wire/control_block.h"

#include <pthread.h>

struct reconciler {
        struct gate *gate;             /* borrowed */
        struct control_block *control; /* borrowed */
        const struct lease *lease;

        atomic_bool is_orphan;   /* set by the main thread: the daemon's socket has hung up */
        atomic_bool has_undone;  /* set by the reconciler: the dead daemon's desired state is undone */
        atomic_bool has_changed; /* there are new channels, or fewer */
        atomic_bool is_ending;
        pthread_t thread;

        /* of the thread */
        struct {
                nsec checked_at;
                nsec retry_at; /* when to set a slice again that could not be set; 0: all could */
        } devices[LEASE_DEVICES_MAX];
        bool is_wanted; /* memory is away, and work was seen that waits for it */
};

/* gate, control and lease are set. 0; -errno. */
int reconciler_start(struct reconciler *reconciler);
void reconciler_stop(struct reconciler *reconciler);

/* The desired state that applies to a device now; any thread. */
struct gate_desired reconciler_desired(const struct reconciler *reconciler, unsigned int device);
