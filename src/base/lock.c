/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include <assert.h>
#include <stddef.h>

/* Bit r is set while this thread holds a lock of rank r, and two of them. */
static __thread unsigned int held, held_twice;

void lock_init(struct lock *lock, enum lock_rank rank)
{
        (void)pthread_mutex_init(&lock->mutex, NULL);
        lock->rank = rank;
}

void lock_done(struct lock *lock)
{
        (void)pthread_mutex_destroy(&lock->mutex);
}

void lock_take(struct lock *lock)
{
        assert(held >> lock->rank == 0 && "lock order: see enum lock_rank");
        (void)pthread_mutex_lock(&lock->mutex);
        held |= 1u << lock->rank;
}

void lock_take_second(struct lock *lock)
{
        assert(held == 1u << lock->rank && !held_twice && "only beside one lock of the same rank");
        (void)pthread_mutex_lock(&lock->mutex);
        held_twice |= 1u << lock->rank;
}

void lock_drop(struct lock *lock)
{
        unsigned int bit = 1u << lock->rank;

        if (held_twice & bit)
                held_twice &= ~bit;
        else
                held &= ~bit;
        (void)pthread_mutex_unlock(&lock->mutex);
}

void lock_dropp(struct lock **lock)
{
        if (*lock)
                lock_drop(*lock);
}

struct lock *lock_taken(struct lock *lock)
{
        lock_take(lock);
        return lock;
}
