/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a tenant that is idle is suspended, and when a suspended one is woken although nobody asks for it. Pure; sleep.c
 * acts. Times are clock_now's.
 *
 *      Z1  a driver call of a suspended tenant that waits wakes it at once;
 *      Z2  a wake that was refused is tried again, each time after twice as long: what is missing, memory mostly, is
 *          others', and an attempt costs them the device's time;
 *      Z3  nobody is put to sleep but for the time that its lease says, counted from its latest sign of work, and only
 *          while somebody has said that it wakes it: its own CUDA calls cannot (docs/suspend.md);
 *      Z4  who was put to sleep, and was woken sooner than it had been idle before, is idle for twice as long before it
 *          is put to sleep again, up to REST_MOST more. Who slept longer is believed again;
 *      Z5  who was put to sleep, and has nobody left who would wake it, is woken, unless its user has asked for it to
 *          be suspended meanwhile;
 *      Z6  one that could not be suspended is let alone for REST_FAILED, then twice as long.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define SLEEPER_RETRY_FIRST (2 * NSEC_PER_SEC)
#define SLEEPER_RETRY_LAST (60 * NSEC_PER_SEC)
#define SLEEPER_REST_FAILED (600 * NSEC_PER_SEC)
#define SLEEPER_REST_MOST (3600 * NSEC_PER_SEC)

/* All 0 at first. */
struct sleeper {
        nsec retry_at, retry; /* not woken before, and how long the latest pause was; 0: no wake was refused */

        nsec active_at;   /* its latest sign of work, or when it was first looked at; 0: it was not */
        uint64_t n_calls; /* then */
        nsec rest;        /* how much longer than `after` it must be idle */
        nsec slept_at;    /* it was put to sleep then, after `idle`; 0: it runs, or somebody else suspended it */
        nsec idle;
};

struct sleeper_view {
        nsec now, after; /* after 0: it is not put to sleep */
        bool has_waker;
        bool is_called; /* a driver call of it waits */

        /* Of one that runs: what it has done, as far as is seen. */
        bool is_at_work; /* the device has not taken what it launched, or nobody can know */
        nsec launched_at;
        uint64_t n_calls;
};

/* Looks at one that runs. True: it is to be suspended, and from here on counts as put to sleep. */
bool sleeper_sleeps(struct sleeper *sleeper, const struct sleeper_view *view);

/* It was to be suspended, and has not been: as if it had not been time yet. */
void sleeper_stays(struct sleeper *sleeper);

/* Of one that is suspended. */
bool sleeper_wakes(const struct sleeper *sleeper, const struct sleeper_view *view);

void sleeper_is_down(struct sleeper *sleeper, nsec now); /* it was put to sleep before; by whom does not matter */
void sleeper_failed(struct sleeper *sleeper, nsec now);  /* it could not be suspended */
void sleeper_refused(struct sleeper *sleeper, nsec now); /* it could not be resumed */
void sleeper_is_up(struct sleeper *sleeper, nsec now);   /* it was suspended, and runs */
void sleeper_is_kept(struct sleeper *sleeper);           /* its user wants it so, too; or it is gone */
