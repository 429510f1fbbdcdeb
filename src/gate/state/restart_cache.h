/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are made again. A filter of ours lets no signal interrupt a call that is being decided
 * (policy/filter.h); one that a container runtime installs may: runc 1.1 does not know the flag. Then the kernel
 * takes the tenant's call back although it has been performed, runs the signal's handler, and makes the same call
 * again, or the program does (EINTR). Made twice, it would fail: the handle is taken, the object is freed.
 *
 * So an answer that could not be delivered is kept, and answers the thread's next call if that is the same to the
 * last register. The call may come again while another thread of ours still performs it: then it waits for that
 * answer. A tenant that repeats or changes a call for no reason deceives only itself: nothing is performed.
 *
 * The kernel may also lose an answer that it has taken: the signal had woken the caller already
 * (seccomp_do_user_notification, 6.18). So the answer to a call that makes or ends something is kept although it was
 * delivered, with the beginning of its block as we left it: the same call over the same block at once means that the
 * answer was lost, since the driver would refuse it. An answer from here may be lost as well, and is kept again, but no
 * longer than the first one: a program that makes a call anew means it.
 *
 * Threads: any.
 */
#pragma once

#include "base/clock.h"

#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
        RESTART_BLOCK = 128, /* bytes of a block that are compared; the first say what is made and under which handle */
        RESTART_SECONDS = 10, /* a delivered answer is kept so long: then another thread may have freed what was made */
        RESTART_SLOTS = 64,   /* by thread; a collision drops the older answer, whose call is then made twice */
};

/* What a call has left in the tenant's block. */
struct restart_block {
        uint64_t at;
        uint32_t size;    /* at most RESTART_BLOCK; 0: nothing that would count */
        const void *ours; /* borrowed */
};

/* A call that is being served; its thread's, and in the list while it is. */
struct restart_call {
        struct restart_call *next;
        uint32_t thread;
        struct restart_block
                left;   /* of one that is made again: what the first has left, for whoever keeps its answer */
        nsec delivered; /* of one that is made again: when its answer was, for the first time; 0: it was not */
        uint8_t block[RESTART_BLOCK];
};

struct restart_cache {
        pthread_mutex_t mutex; /* a leaf */
        pthread_cond_t ended;
        struct restart_call *calls;
        unsigned int n; /* of answers */
        struct restart_answer {
                uint32_t thread; /* 0: none */
                uint64_t since;  /* when the thread began: its number is used again */
                struct seccomp_data call;
                int64_t value;
                nsec delivered; /* when; 0: it was not */
                uint64_t block_at;
                uint32_t block_size;
                uint8_t block[RESTART_BLOCK];
        } answers[RESTART_SLOTS];
};

void restart_cache_init(struct restart_cache *cache);
void restart_cache_done(struct restart_cache *cache);

/* The answer was not delivered. Nothing is kept for a thread that is gone. */
void restart_cache_keep(struct restart_cache *cache, const struct seccomp_notif *notification, int64_t value,
                        const struct restart_block *block);

/* It was, and it made or ended something. since: when for the first time (struct restart_call); 0: now. */
void restart_cache_keep_delivered(struct restart_cache *cache, const struct seccomp_notif *notification, int64_t value,
                                  const struct restart_block *block, nsec since);

/* A call comes: true if a call of its thread is still being served, for which restart_cache_begin would wait. */
bool restart_cache_must_wait(struct restart_cache *cache, const struct seccomp_notif *notification);

/* Puts `call` into the list. True: it is made again, and *ret_value its answer; or it is nobody's any more (its
 * caller was taken back while it waited here), and -EINTR will do. Else whatever was kept for the thread is gone.
 * listener: -1 is none. */
bool restart_cache_begin(struct restart_cache *cache, struct restart_call *call,
                         const struct seccomp_notif *notification, int listener, int64_t *ret_value);
void restart_cache_end(struct restart_cache *cache,
                       struct restart_call *call); /* answered, and restart_cache_keep called if need be */
