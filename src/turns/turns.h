/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU time: which tenants may use a device now, and until when. Pure: the view comes in, orders go out, and the time is
 * a parameter. One `struct turns` per device.
 *
 * The words of this room:
 *      entity       a tenant as the policy remembers it from one view to the next (cf. Linux's sched_entity)
 *      always-on    an entity that wants no more than its share. Its channels are always enabled; the device serves it
 *                   by hardware time slices, and while it is idle it costs nothing
 *      time-sliced  an entity that wants all it can get. Time-sliced entities take turns, round robin: the channels of
 *                   one of them, the holder, are enabled, those of the others disabled
 *      turn         a span in which one time-sliced entity holds the device: its part of a round plus what it is owed
 *      owed, debt   the two accounts of an entity, in time on the device: inside.h
 *      gang         entities on several devices that come on and go off together: turns/gangs.h decides when, and what
 *                   it says is part of the call. A device without one is decided by turns_next alone
 *
 * With gangs, the call is in two steps, and gangs_next stands between them:
 *
 *      turns_look(turns, &view, signs);                     what this device says of its gangs
 *      ... gangs_tell, gangs_next, gangs_orders ...         one decision for all devices
 *      wake_at = turns_decide(turns, &view, gang_orders, orders);
 *
 * The scheduler (sched/sched.h) brings the view: the tenants, what the meter counted for each, and what is known of
 * their work. A policy answers with an order per tenant: a time slice, or channels disabled. The scheduler makes the
 * device follow the orders, and what the device then did is part of the next view. That closes the control loop.
 *
 *      turns_new(&settings, &turns);
 *      for (;;) {
 *              ... view ...
 *              wake_at = turns_next(turns, &view, orders);
 *              ... apply the orders; sleep until wake_at, or until a tenant is added, removed or changed ...
 *      }
 *
 * Promises (tests/unit/turns):
 *      T1  a tenant that wants the device is metered its share, measured over a second, whatever the others do. Rounds
 *          that are short for a synchronous tenant (steps.c) lose up to 2 % between tenants: then, of what all have;
 *      T2  no tenant is metered more than its cap over any second;
 *      T3  no tenant that wants the device waits longer than three periods;
 *      T4  a share that is not wanted is lent, and is back within a period when it is wanted again;
 *      T5  what a tenant's rings say takes no time of others by itself: claims.c;
 *      T6  every view yields orders: a tenant may appear, leave, or never end its kernel at any call.
 *
 * Threads: none; a struct turns belongs to its caller.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t permille; /* of a device's time; 1000 is all of it */

enum {
        TURNS_TENANTS_MAX = 256, /* of one device */
        TURNS_WHOLE = 1000,      /* permille; a cap of this is no cap */
        TURNS_PPM = 1000,        /* parts per million in a permille */
};

/*
 * What each of `n` tenants that were promised no share gets, in parts per million of a device whose promises add up to
 * `promised`: an equal part of the rest, and at least one permille, so that nobody starves. Together with the promises
 * this may be more than the device; turns_next then scales all shares down.
 */
uint32_t turns_equal_part(permille promised, size_t n);

#define TURNS_GOAL_REST (2 * NSEC_PER_MSEC) /* of a goal, for handovers */
#define TURNS_GOAL_MOST (10 * NSEC_PER_SEC) /* as good as none */

/*
 * The least goal that can be promised to a tenant with `share` (ppm) when `n` tenants take turns on the device: twice
 * what it waits for in a round that is as short as it may be, and 2 ms. Such a round has 2 ms for each tenant, and 1.5
 * ms for this one. The promise is for steps of up to an eighth of the goal, those of other services as well, and of up
 * to a quarter of what the share is of that time.
 */
nsec turns_goal_least(uint32_t share, size_t n);

enum turns_class {
        TURNS_NORMAL,
        TURNS_LATENCY, /* served at once while it is within its share */
        TURNS_BATCH,   /* yields: throughput matters to it, waiting does not */
};

enum turns_work {
        TURNS_WORK_UNKNOWN, /* launches cannot be seen: there is only the meter */
        TURNS_WORK_NONE,    /* the device has taken all that was launched */
        TURNS_WORK_PENDING, /* launched and not yet taken by the device */
};

/* One tenant on this device, as the scheduler sees it. */
struct turns_tenant {
        uint64_t id;    /* the caller's; constant for a tenant, never reused */
        uint64_t gang;  /* that it is a part of; 0: none */
        uint64_t team;  /* that it is folded into (turns/teams.h); 0: none */
        permille share; /* 0: none was promised; an equal part of what is left */
        permille cap;   /* TURNS_WHOLE: none; 0: always disabled */
        enum turns_class class;
        nsec goal; /* p99 of a step that arrives while the tenant is within its share; 0: none (turns_goal_least) */

        nsec used;         /* metered until view->metered_until; never falls; an open interval counts */
        nsec started_at;   /* when the device last switched to it; 0: never */
        nsec stopped_at;   /* when the device last switched away from it; 0: never */
        bool is_resident;  /* on the device, as of the meter */
        uint64_t n_starts; /* how often the device switched to it, ever; 0: not counted */

        unsigned int n_groups; /* compute channel groups, one per process; 0: not known, counts as one */

        /* Of a team. */
        unsigned int n_equal; /* mates without a promise: that many equal parts come on top of `share` */
        bool has_waiter;      /* a mate that works has drained its queue: it waits for answers */

        enum turns_work work;
        nsec launched_at; /* when a launch was last seen; 0: never, or no signal */
        nsec watched_at;  /* when `work` was seen; 0: no signal */
};

struct turns_view {
        nsec now;
        nsec metered_until; /* records up to here have been read; <= now */
        const struct turns_tenant *tenants;
        size_t n_tenants;   /* <= TURNS_TENANTS_MAX */
        bool has_unmanaged; /* an unmanaged process is on the device, as of the meter */
};

struct turns_order {
        bool is_disabled; /* its channels are disabled */
        bool is_gentle;   /* while disabled: what runs now may end, or go on until another's turn on the device */
        nsec slice;       /* hardware time slice while enabled; 0: the driver's own */
};

/* What a device says of one entity of a gang; of others all is zero. */
struct turns_sign {
        bool is_rank;
        bool wants_more;   /* than its share, while it is always-on */
        bool is_satisfied; /* a latency entity that has left as much of its share unused as it had used too much */
        bool is_blocked;   /* it has used its cap */
        bool is_capped;
        bool is_patient; /* it has asked for no latency: neither by its class nor by a goal */
        bool is_resident;
        bool is_at_work; /* the meter has it on the device, or it has launched what the device has not taken */
        nsec debt;       /* when it wants more: what it has used too much */
        nsec used;       /* metered, and predicted until now */
        nsec started_at;
        nsec beside;    /* so long its work may wait for others that are on the device */
        uint32_t share; /* ppm */
        uint32_t fair;  /* ppm that this device alone would give it */
};

/* What gangs_next says to one entity of a gang. */
enum turns_gang_state {
        TURNS_GANG_NONE, /* it is in no gang, or alone in one: the device decides */
        TURNS_GANG_FREE, /* always-on, on all its devices */
        TURNS_GANG_OFF,
        TURNS_GANG_ON,
};

struct turns_gang_order {
        enum turns_gang_state state;
        bool is_time_sliced;
        bool has_device; /* ON: nobody else takes turns on this device meanwhile */
        uint32_t weight; /* ppm of the device's time, while time-sliced */
        nsec until;      /* when the gang's turn ends */
};

enum turns_policy {
        TURNS_POLICY_AUTO,   /* TURNS_POLICY_TURNS */
        TURNS_POLICY_SLICES, /* hardware time slices by weight; channels are disabled only for a cap */
        TURNS_POLICY_TURNS,  /* turns in software; what an idle holder leaves is lent */
        TURNS_POLICY_STRICT, /* turns in software; nothing is lent */
        TURNS_POLICY_NONE,   /* the driver's default: metered only, but caps hold */
        TURNS_N_POLICIES,
};

struct turns_settings {
        enum turns_policy policy;
        nsec period; /* of one round of turns, at most; 0: 100 ms, or by the number of tenants (TURNS_POLICY_SLICES) */
};

struct turns;

int turns_new(const struct turns_settings *settings, struct turns **ret); /* -ENOMEM */
struct turns *turns_free(struct turns *turns);                            /* NULL is fine */

/* The orders from now on, one per tenant of the view, in the view's order. Returns the latest time of the next call;
 * earlier calls do no harm. */
nsec turns_next(struct turns *turns, const struct turns_view *view, struct turns_order *ret_orders);

/* The same in two steps. turns_look writes one sign per tenant of the view, and turns_decide reads one gang order per
 * tenant; the view is the same. turns_rest: between the two, whether an entity that takes turns here waits for what
 * gangs leave; *ret_always_on is what all always-on entities have used, ever. */
void turns_look(struct turns *turns, const struct turns_view *view, struct turns_sign *ret_signs);
nsec turns_decide(struct turns *turns, const struct turns_view *view, const struct turns_gang_order *gangs,
                  struct turns_order *ret_orders);
bool turns_rest(const struct turns *turns, nsec *ret_always_on);

/* What one step of the i-th tenant of the latest view takes, if that is known (steps.c); else 0. */
nsec turns_step(const struct turns *turns, size_t i);

/* What the rings of the i-th tenant of the latest view say, unless the meter contradicts it (claims.c): then NONE. */
enum turns_work turns_work(const struct turns *turns, size_t i);

enum turns_policy turns_policy_in_force(const struct turns_settings *settings); /* never AUTO */
nsec turns_period(const struct turns_settings *settings);                       /* of a round of turns */

/* "auto", "slices", "turns", "strict", "none". 0; -EINVAL. */
int turns_policy_parse(const char *text, enum turns_policy *ret);
const char *turns_policy_name(enum turns_policy policy);
int turns_class_parse(const char *text, enum turns_class *ret); /* "latency", "normal", "batch" */
const char *turns_class_name(enum turns_class class);
