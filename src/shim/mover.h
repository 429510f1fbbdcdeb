/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the tenant's memory off its devices and back when the daemon says so (gate/move/move.h), on a thread of its
 * own: the main one goes on answering. One way at a time: a daemon asks for the next when it has the answer, and a new
 * daemon's question waits for the end of what the one before it asked for.
 *
 * The copy engines and the host memory are this process's (gpu/copy.h), one for each device of the lease. Host memory
 * is made when a move needs it and given back when what was in it has returned, but for what the daemon lets it keep:
 * that is made ahead of need, while the tenant runs, a GiB at a time so that a move need not wait for long.
 */
#pragma once

#include "gate/gate.h"
#include "gate/move/move.h"
#include "gpu/backend.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_copy;

struct mover {
        struct gate *gate;
        struct gate_copier copier;
        const struct gpu_backend *backend;
        struct gpu_copy *engines[LEASE_DEVICES_MAX];

        pthread_t thread;
        bool has_thread;
        int done; /* eventfd: a way has ended, for the main thread */

        struct mover_way {
                bool is_out, is_steered;
                unsigned int part; /* gate_move_out */
                bytes bound;       /* of host memory that memory may go to; 0: none */
                uint64_t serial;
        } way,        /* under way, or the latest; written before its thread begins */
                next; /* of a daemon that came meanwhile */
        atomic_bool has_next;
        bytes asked;             /* of host memory on the way under way; its thread's */
        _Atomic bytes keep;      /* host memory that may stay while nothing is in it */
        bool is_ready_wanted;    /* what is there is to be as `keep` has it */
        bool is_making_ready;    /* which is what the thread does, and nobody is told */
        struct gate_moved moved; /* written by the thread, until it has answered */
        atomic_bool has_answered, is_over;
        bool is_told;
        bool is_announced_out;
};

enum mover_news {
        MOVER_NOTHING,
        MOVER_ANSWER, /* a way has ended: mover->way and mover->moved say which and how */
        MOVER_OVER,   /* and what it left behind is gone */
};

/* The copier may be given to a gate at once. 0; -errno. */
int mover_init(struct mover *mover, const struct gpu_backend *backend);

/* Waits for the way under way, which has an end. No more are begun. */
void mover_stop(struct mover *mover);

/* Begins a way, or will when the one under way has ended, whose end then matters to nobody. 0; -errno. */
int mover_start(struct mover *mover, const struct mover_way *way);

/* The main thread's. mover_start follows: whoever asks meanwhile learns that memory is about to leave. */
void mover_announce(struct mover *mover, const struct mover_way *way);
bool mover_is_leaving(const struct mover *mover); /* or is about to; no more when the way has been answered */

/* From here on so much host memory is made ready and kept for what the tenant holds; what is more goes back. Now, or
 * after the way under way. */
void mover_keep(struct mover *mover, bytes most);

/* What has happened, each once; the next way begins with the end of the one before it. */
enum mover_news mover_take(struct mover *mover);
