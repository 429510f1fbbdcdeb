/*
 * The reconciler of a shim: a thread that makes what the daemon desired states on the control block come true, and lets the
 * tenant go on when nobody desired states any more.
 *
 *      S1  A dead or silent daemon keeps nobody off: its tenants' channels are on again within 1 s.
 *      S2  A daemon is dead when its socket has hung up: the kernel closes it when the last of its threads has gone,
 *          so no call of it is under way any more. Only then are its desired states on the control block taken back.
 *      S3  A daemon is silent when its beat is older than CONTROL_BLOCK_SILENT_MSEC. It may come back: its desired states stay on
 *          the control block, are not followed, and are followed again with the next beat.
 *      S4  A desired state may change during a call that follows it; so it is looked at again after the call.
 *
 * Blocks: driver calls, here and on no other thread of the shim (but on those that answer the tenant, for its
 * own new channels).
 */
#pragma once

#include "gate/gate.h"
#include "wire/control_block.h"

#include <pthread.h>

struct reconciler {
        struct gate *gate;             /* borrowed */
        struct control_block *control; /* borrowed */
        const struct lease *lease;

        atomic_bool is_orphan;   /* set by the shim: the daemon's socket has hung up */
        atomic_bool has_undone;  /* set here: what the dead daemon wished is undone */
        atomic_bool has_changed; /* channels have come or gone */
        atomic_bool is_ending;
        pthread_t thread;

        /* Of the thread. */
        struct {
                nsec checked_at;
                nsec retry_at; /* a slice could not be set; 0: all could */
        } devices[LEASE_DEVICES_MAX];
};

/* gate, board and lease are set. 0; -errno. */
int reconciler_start(struct reconciler *reconciler);
void reconciler_stop(struct reconciler *reconciler);

void reconciler_wake(struct reconciler *reconciler);

/* What holds for a device now; any thread. */
struct gate_desired reconciler_desired(const struct reconciler *reconciler, unsigned int device);
