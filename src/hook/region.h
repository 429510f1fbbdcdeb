/*
 * The region: what the processes of a tenant hold together, where no supervisor keeps the books.
 *
 * A memfd that all of them map: a slot for each process, and in it what that process holds on each device.
 * There is no lock that a dead process could hold, and no sum that one could leave wrong:
 *      R1  a process adds to its own slot only; what the tenant holds is the sum of the slots, taken anew each
 *          time;
 *      R2  it adds first and sums then; if the sum is over, it takes back what it added. Of two that add at the same
 *          time the later one sees both, so the sum of what is kept is never over;
 *      R3  a slot belongs to who holds the write lock on its byte of the file (an open file description lock): the
 *          kernel drops it when the process is gone, at whatever instruction, in whatever pid namespace. The
 *          descriptor has a high number, so at exit the driver's are closed before it. A fork inherits both: what
 *          the parent holds stays charged as long as a child can keep it;
 *      R4  a slot without a lock is a dead process's: whoever needs room locks it, empties it, unlocks it.
 * Two that together would be over may refuse each other; they look again a few times before they say so.
 *
 * The tenant can write to the region: it is a guard against accidents, not against an enemy, like all that
 * runs inside (docs/preload.md). The quotas are not in it: they are on a page that it can only read.
 *
 * Threads: all functions from any, but region_join and region_leave. Signal handlers: region_take and
 * region_drop make no allocation and take no lock.
 */
#pragma once

#include "base/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
        REGION_SLOTS = 1024, /* processes of a tenant at a time */
        REGION_DEVICES = 32,
        REGION_HOST = REGION_DEVICES, /* host memory counts as one more device */
        REGION_KINDS,

        REGION_OK = 0,
        REGION_E_FULL,  /* would exceed the quota; nothing was taken */
        REGION_E_SLOTS, /* too many processes */
};

struct region_slot {
        _Atomic bytes held[REGION_KINDS];
};

struct region {
        char magic[8];
        uint32_t version, size;
        _Atomic uint64_t n_refused[REGION_KINDS]; /* for people, as the two that follow */
        _Atomic bytes peak[REGION_KINDS];
        _Atomic bytes largest_refused[REGION_KINDS];
        struct region_slot slots[REGION_SLOTS];
};

/* A process's place in it. */
struct region_seat {
        struct region *region;
        struct region_slot *slot;
        int fd; /* of our own file description: it carries the lock */
};

/* By who starts the tenant: a new one, sealed. *ret_fd; 0; -errno. */
int region_new(int *ret_fd);

/* Maps what a descriptor holds and takes a slot. -EPROTO: it is no region, or a damaged one; REGION_E_SLOTS. The
 * descriptor stays the caller's. */
int region_join(int fd, struct region_seat *ret);

/* In the child of a fork: a slot of its own; the parent's stays the parent's. As region_join. */
int region_join_again(struct region_seat *seat);

void region_leave(struct region_seat *seat); /* gives back what the slot holds */

int region_take(struct region_seat *seat, unsigned int kind, bytes size, bytes quota);
int region_try(struct region_seat *seat, unsigned int kind, bytes size, bytes quota); /* a refusal is not counted */
void region_drop(struct region_seat *seat, unsigned int kind, bytes size);

bytes region_held(const struct region *region, unsigned int kind); /* by all processes */

void region_settle(struct region_seat *seat); /* what dead processes held goes back now */
