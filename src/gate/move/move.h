/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tenant's video memory leaves its devices and comes back, by copies of the gate's own: docs/suspend.md.
 *
 * A process that made a client and maps for a VA space may take memory away below both and put it back (docs/gpu.md
 * §10), and the gate is that process. So the way out is: calls wait; channels are off; each memory that can move
 * (lease/moves.h) is copied to host memory by a copy engine, and UVM moves what is managed (ranges.c); then the first
 * is unmapped and freed. The way back makes it again under its handle, with what the driver was told the first time,
 * maps it where it was, and copies it in.
 *
 *      T1  no call of the tenant's is under way while memory moves: those that come wait, and none fails for it;
 *      T2  from before the first copy out until after the last copy in no channel of the tenant's is enabled, whoever
 *          asks (channel_control.c);
 *      T3  nothing is freed before the contents of all are in host memory;
 *      T4  a failure goes back to where it came from. What can go neither on nor back is lost: GATE_MOVE_LOST. That is
 *          the answer from then on, whoever asks: a daemon that did not hear it must not take the tenant for whole;
 *      T5  only what the ledger has as the tenant's is named to the driver, by the tenant's own descriptors;
 *      T6  every wait has an end.
 *
 * While memory is away calls go on that need nothing of it. Those that do wait, and say so (gate_options.waits).
 */
#pragma once

#include "base/clock.h"
#include "gate/move/moving.h"
#include "lease/lease.h"

#include <stdbool.h>
#include <stdint.h>

struct gate;
struct request;

/*
 * Who has a copy engine and host memory: the supervisor, for one mover at a time. Each 0 or -errno; -EIO: the engine
 * has stopped.
 *      begin  an engine of the device, and room for `size` bytes in host memory behind what is kept there
 *      take   a second handle of a tenant's memory, and where the engine sees it
 *      give   the handle goes; while it does not, the memory is on the device whoever frees it
 *      copy   is asked for; from there to `host` (an offset in the room), or back
 *      wait   for all that were asked for
 *      end    engine and handles go. is_kept: what is in host memory stays
 *      spare  whether the host has `size` bytes more, beside the room; -ENOMEM: it has not
 *      ready  makes room for `size` bytes ahead of need, a part of it each time. *ret_is_all: there is so much now.
 *             -ECANCELED: no more of that for now
 */
struct gate_copier {
        void *context;
        int (*begin)(void *context, unsigned int device, bytes size);
        int (*take)(void *context, unsigned int device, uint32_t client, uint32_t object, struct gate_piece *piece);
        int (*give)(void *context, unsigned int device, const struct gate_piece *piece);
        int (*copy)(void *context, unsigned int device, bool is_out, const struct gate_piece *piece, bytes host);
        int (*wait)(void *context, unsigned int device);
        void (*end)(void *context, unsigned int device, bool is_kept);
        int (*ready)(void *context, unsigned int device, bytes size, bool *ret_is_all);
        int (*spare)(void *context, bytes size);
};

/* All that can move, if that is at least `part` per mille of what the tenant has allocated. is_steered: a scheduler
 * switches its channels, and is waited for to have them off. One thread, which is not the gate's. */
void gate_move_out(struct gate *gate, bool is_steered, unsigned int part, struct gate_moved *ret);

/* What is away. Nothing is away: done. */
void gate_move_in(struct gate *gate, struct gate_moved *ret);

/* After a way that has ended: host memory that nothing is in any more goes back, which takes a while. The same
 * thread. */
void gate_move_rest(struct gate *gate);

/* Host memory is made ready for what the tenant holds, up to `most` in all; nothing is moved. Nothing is made while
 * memory is away. The same thread. */
void gate_move_ready(struct gate *gate, bytes most);

/* Memory is away, or on its way. Any thread. */
bool gate_is_moved(const struct gate *gate);

/* The tenant has put work for a channel that is off since memory went. For the thread that controls its channels; only
 * while gate_is_moved. */
bool gate_move_is_wanted(struct gate *gate);

/* What is known of it; also of a gate that ends while memory is away. */
void moving_done(struct moving *moving);

/* ---- inside the gate ------------------------------------------------------------------------------------- */

/* Before a call of the tenant's is made, and after it: T1. 0, or as wait_ask in act.h. */
int move_enter(struct request *request);
void move_leave(struct request *request);

/* How the objects and mappings of a call were made, after it was: with the ledger's lock. */
void move_note_object(const struct request *request, uint32_t handle);
void move_note_map(const struct request *request, uint64_t where);

/* What the call names stays on its device. */
void move_pin(struct gate *gate, uint32_t client, uint32_t object);
void move_pin_named(const struct request *request); /* every memory of its client in its parameters */
