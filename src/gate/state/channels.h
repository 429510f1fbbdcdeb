/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel groups and channels of a tenant: what is disabled and enabled, given slices, and read for signs of
 * work. The ledger has them as objects; here is what the driver said of them.
 *
 * A group's word for its engine is the tenant's: the driver gives a graphics context to a group of any engine, and one
 * that says copy engine computes all the same (seen, H100). So disabled and enabled are all channels. What a group says
 * matters only for what disabling does not need: slices, signs of work, and turns on other engines. There it is compute
 * as soon as any object is made in it that is not of one fixed engine: without such an object no channel computes.
 *
 * A group of the MPS server's, which its clients dup, is here as each client's own: it runs already, and is compute
 * (is_lent). A dup of a channel is no new channel, and is not here. Room is reserved before the driver's call and used
 * after it, so a put cannot fail. Invariant: what is here is in the ledger, or about to be swept.
 *
 * Threads: any.
 */
#pragma once

#include "base/clock.h"
#include "base/lock.h"
#include "gate/state/driver.h"

#include <sys/types.h>

struct group {
        uint32_t client, handle;
        bool is_compute; /* it says the graphics and compute engine, or has an object that may need it */
        int device;      /* of the lease */
        pid_t process;   /* that made it, and its descriptor: there SET_TIMESLICE works */
        int theirs;
        bool is_lent;             /* the MPS server's */
        bool is_scheduled;        /* a channel that joins it may run at once */
        uint32_t scheduled_until; /* the channels before this one, by their order, were there when it was scheduled */
        nsec slice;               /* set by us; 0: the driver's own */
        nsec own;                 /* what the driver's own is; 0: not asked yet */
};

struct channel {
        struct gate_channel is;
        uint32_t userd; /* handle of the memory where its positions stand; 0: none, or it has gone */
        uint64_t userd_at;
        bool is_scheduled; /* by itself */
};

struct channels {
        struct lock lock;
        struct channel *items;
        struct group *groups;
        size_t n, n_room, n_reserved, n_max;
        size_t n_groups, n_groups_room, n_groups_reserved, n_groups_max;
        uint32_t n_ever;
        _Atomic uint64_t changes; /* counts what comes and goes */
};

void channels_init(struct channels *channels, size_t n_max, size_t n_groups_max);
void channels_done(struct channels *channels);

/* Room for one more channel, or group. 0; -ENOSPC; -ENOMEM. _of: of a device, which may have so many; -EDQUOT: it has.
 * What is reserved and not there yet counts on every device. */
int channels_reserve(struct channels *channels, bool is_group);
int channels_reserve_of(struct channels *channels, bool is_group, int device, size_t most);
void channels_unreserve(struct channels *channels, bool is_group);

/* Use a reservation up. One of that handle that is there already is replaced. The lock is the caller's, so that what
 * it publishes of a channel is in order. */
void channels_put(struct channels *channels, struct channel *channel); /* gives it its order */
void channels_put_group(struct channels *channels, const struct group *group);

/* Which there are; *ret is malloc'd. The channels of a device, on whatever engine, and of one group, if group is not 0;
 * the compute groups of a device. How many; -ENOMEM. */
ssize_t channels_copy(struct channels *channels, int device, uint32_t client, uint32_t group, struct channel **ret);
ssize_t channels_copy_groups(struct channels *channels, int device, struct group **ret);

/* The channel or group, under the lock; NULL. */
struct channel *channels_find(struct channels *channels, uint32_t client, uint32_t handle);
struct group *channels_group(struct channels *channels, uint32_t client, uint32_t handle);

/* Whether it is the graphics and compute engine, by the driver's engine type. */
bool channels_is_compute(uint32_t engine);

/* Under the lock: an object of that class was made in the channel. True: something is known now that was not before:
 * the channel's engine, or that its group is compute, and so are its channels. */
bool channels_note_object(struct channels *channels, struct channel *channel, uint32_t class_number);

/* Room for `n` items of that size; it doubles. 0; -ENOMEM. */
int array_grow(void **items, size_t *n_room, size_t n, size_t size);
