/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes with ranks: taken downward in enum lock_rank, never upward; a debug build asserts it.
 * docs/locking.md says what each protects. No lock is held across a call into the driver, except
 * LOCK_CLIENT, whose whole purpose is to keep two calls on one driver client in order, and LOCK_PARTITION above it.
 */
#pragma once

#include <pthread.h>

enum lock_rank {
        LOCK_PARTITION, /* a program's SM partitions, made and ended one at a time; held across calls of libcuda */
        LOCK_SWEEP,     /* a gate's sweeps, one at a time */
        LOCK_SWITCH,    /* a gate's channels, enabled and disabled: by one at a time */
        LOCK_CLIENT,    /* one driver client of a tenant: its tree-changing calls, one at a time */
        LOCK_BORROW,    /* a shim's questions to the shims of its job, one at a time */
        LOCK_LOANS,     /* a gate's table of what it has lent */
        LOCK_PROCESSES, /* a gate's table of tenant processes */
        LOCK_CHANNELS,  /* a gate's table of channels and groups */
        LOCK_LEDGER,    /* one tenant's object -> charge map */
        LOCK_EVENTS,    /* a gate's counters and its log of events; a leaf */
        LOCK_TALK,      /* a shim's sockets; a leaf */
        LOCK_SCHED,     /* of one device: its tenants, what is metered, what is ordered */
        LOCK_GANGS,     /* which gangs are on, for all devices; a leaf */
        LOCK_CLUSTER,   /* what the extender knows of the cluster, and its idle API clients; a leaf */
        LOCK_PODS,      /* what the device plugin knows of devices and of its node's pods; a leaf */
        LOCK_HTTP,      /* an HTTP server's connections and their peers; a leaf */
        LOCK_TRACE,     /* of one device: the ring of spans; a leaf */
        LOCK_CLOSING,   /* of a process: descriptors that are to be closed; a leaf */
        LOCK_CHILDREN,  /* of a process: the making of a child, one at a time; a leaf */
        LOCK_RANKS,
};

struct lock {
        pthread_mutex_t mutex;
        enum lock_rank rank;
};

#define LOCK_INIT(r)                                                                                                   \
        {                                                                                                              \
                PTHREAD_MUTEX_INITIALIZER, r                                                                           \
        }

void lock_init(struct lock *lock, enum lock_rank rank);
void lock_done(struct lock *lock);
void lock_take(struct lock *lock);
void lock_drop(struct lock *lock);

/* Two of rank LOCK_CLIENT may be held together if taken by lock_take_second, in address order. */
void lock_take_second(struct lock *lock);

void lock_dropp(struct lock **lock); /* for _cleanup_ */

#define LOCKED(l) __attribute__((cleanup(lock_dropp), unused)) struct lock *locked_ = lock_taken(l)

struct lock *lock_taken(struct lock *lock); /* lock_take, and returns it */
