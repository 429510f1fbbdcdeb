/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings that were let through and may not be made yet. The kernel makes a mapping after we have answered the
 * notification, and the thread may be held up for as long as somebody likes; a thread that notifies us again, or is
 * gone, has made its mapping or has failed to. Until then "UVM has nothing there" says nothing.
 *
 * A thread has one mapping on its way at most, so it is known by its thread.
 *
 * Threads: any; one lock, of rank LOCK_PROCESSES, under which nothing blocks.
 */
#pragma once

#include "base/clock.h"
#include "base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping_call {
        pid_t thread, process;
        uint64_t base, length;
        uint64_t space;     /* where a pool is; 0: no pool */
        bool is_charged;    /* as managed memory; else the ledger expects no managed range from it */
        uint64_t serial;    /* mappings_begin sets it */
        bool is_considered; /* it counts, and is not let through yet: there is nothing to look at */
};

struct mappings {
        struct lock lock;
        struct mapping_call *items;
        size_t n_room;
        _Atomic size_t n;
        uint64_t serial;
        _Atomic nsec due_at;   /* the first look that is due at those that were let through; 0: none */
        _Atomic nsec due_last; /* the last one */
};

void mappings_init(struct mappings *mappings);
void mappings_done(struct mappings *mappings);

/* The thread is about to map; what it had on its way is replaced, unless it does not wait for the answer any more: its
 * number may be another's by now. Sets the serial. -ENOMEM; -EINTR: it does not. */
int mappings_begin(struct mappings *mappings, struct mapping_call *call, bool (*is_awaited)(const void *context),
                   const void *context);

/* What the thread has on its way: *ret. If it makes another call, that mapping is made or refused. Cheap if nobody has
 * one. */
bool mappings_of(struct mappings *mappings, pid_t thread, struct mapping_call *ret);

/* The next call whose thread is gone, from *i on, which starts at 0; the same one again until it has ended
 * (mappings_end). False: there is none. Those that are there are looked at once. */
bool mappings_gone(struct mappings *mappings, size_t *i, struct mapping_call *ret);

/* Forgets the call, once it has been checked: whoever asks meanwhile what is on its way must still find it. Not one
 * that has begun since under the same thread's number. */
void mappings_end(struct mappings *mappings, const struct mapping_call *call);

/* The i-th call on its way; false: there are not so many. Whoever goes from the last to the first misses none that had
 * begun. */
bool mappings_at(struct mappings *mappings, size_t i, struct mapping_call *ret);

/* Whether a charged mapping of the process at base is on its way. */
bool mappings_has(struct mappings *mappings, pid_t process, uint64_t base);

/* Whether another thread than this one has a mapping on its way, of any kind, with an address in
 * [base, base + length). */
bool mappings_has_others(struct mappings *mappings, pid_t thread, uint64_t base, uint64_t length);

/* One was let through, and is to be looked at then. One that comes later makes no look at one before it later, however
 * many come. */
void mappings_note_due(struct mappings *mappings, nsec at);

/* Whether it is time for a look, which the caller is to take. */
bool mappings_take_due(struct mappings *mappings, nsec now);
