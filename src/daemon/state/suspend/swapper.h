/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the tenants with --swap are on the device, and who leaves it for whom: from a view to orders. Pure; swap.c
 * acts. Times are clock_now's.
 *
 *      X1  what is promised to those in, and what those out have left there, never exceeds a device's room. Who is on
 *          its way counts as in;
 *      X2  who waits longest for a device comes in first: once the turns of others are over. It is passed by those for
 *          which there is room now, and beside it, too, once others have left. And one whose waiting has no known end
 *          (SWAPPER_FOR_HOST, SWAPPER_FOR_NOBODY) is passed by all;
 *      X3  nobody leaves but for one that waits and does not fit, and no more leave than it needs. So those that fit
 *          together never move;
 *      X4  who has done nothing for longest leaves first, of those at work who has been in for longest; one of class
 *          latency only where all others together do not make room enough;
 *      X5  nobody leaves before it has been in for as long as its move costs, divided by `part`: moving costs it no
 *          more than that part of its time. Who came in and did nothing for SWAPPER_IDLE has no turn to finish;
 *      X6  nobody leaves whose contents the host would not hold;
 *      X7  one exchange at a time on a device, so that the host holds one more set than that has room for, and not
 *          several (swap_fit.c counts on it);
 *      X8  while others wait for its device, one at work is in for its share of a cycle in which each of them is in
 *          once; a cycle fills a minute a whole number of times, if X5 leaves it that short (slots.c).
 */
#pragma once

#include "base/clock.h"
#include "base/text.h"
#include "lease/exchange.h"
#include "lease/lease.h"
#include "turns/turns.h"

#include <stdbool.h>
#include <stddef.h>

#define SWAPPER_REST_MOST (60 * NSEC_PER_SEC)
#define SWAPPER_IDLE (5 * NSEC_PER_SEC)

enum swapper_place {
        SWAPPER_IN,
        SWAPPER_LEAVES, /* on its way out */
        SWAPPER_OUT,
        SWAPPER_COMES, /* on its way in */
};

struct swapper_tenant {
        enum swapper_place place;
        bool is_latency;
        permille share;
        bool may_leave; /* nothing is known that would keep it */
        bool waits;     /* of one that is out: it is to come in, since */
        nsec waits_since;
        nsec in_since, worked_at; /* of one that is in; worked_at: its latest sign of work */
        nsec cost;                /* of its move, there and back */
        bytes promised[LEASE_DEVICES_MAX];
        bytes left[LEASE_DEVICES_MAX]; /* of one that is out: on the device still */
        bytes held;                    /* that the host would have to hold */
};

struct swapper_view {
        nsec now;
        permille part; /* of a turn, that moving may cost; not 0 */
        bytes host;    /* that is free */
        unsigned int n_devices;
        bytes room[LEASE_DEVICES_MAX];
        const struct swapper_tenant *tenants; /* in the order of arrival */
        size_t n;
};

enum swapper_order { SWAPPER_STAY, SWAPPER_COME, SWAPPER_LEAVE };

enum swapper_why {
        SWAPPER_NOT_WAITING,
        SWAPPER_FOR_MOVES,  /* others are on their way */
        SWAPPER_FOR_TURNS,  /* others have not been in for long enough */
        SWAPPER_FOR_OTHERS, /* who has waited for longer comes first */
        SWAPPER_FOR_HOST,   /* who would have to leave does not fit into host memory */
        SWAPPER_FOR_NOBODY, /* those that could leave do not make room enough */
        SWAPPER_N_WHYS,
};

struct swapper_decision {
        enum swapper_order order;
        enum swapper_why why; /* it waits; SWAPPER_NOT_WAITING also of one that comes */
        size_t rank;          /* of those that leave: who was chosen first */
        bool is_done;         /* of swapper_decide */
};

/* ret: a row of each tenant. */
void swapper_decide(const struct swapper_view *view, struct swapper_decision *ret);

/* How long one that left after being idle for so long stays out before it is taken to wait: a program that is suspended
 * cannot say that it has work (docs/suspend.md). One that had nothing to do is believed to have nothing for as long
 * again. */
nsec swapper_rest(nsec idle);

/* X5, X8. slots.c */
bool swapper_turn_is_over(const struct swapper_view *view, const struct swapper_tenant *tenant);

/* ---- how much host memory they need, so that an exchange is always possible (never SWAPPER_FOR_HOST): exchange.h. It
 * counts on X3. */

struct swapper_host {
        struct exchange devices[LEASE_DEVICES_MAX];
        bool is_spread; /* one has several devices */
};

void swapper_host_add(struct swapper_host *host, const bytes promised[static LEASE_DEVICES_MAX]);
bytes swapper_host_needed(const struct swapper_host *host, const bytes room[static LEASE_DEVICES_MAX],
                          unsigned int n_devices);
