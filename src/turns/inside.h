/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a struct turns remembers; for the files of this room only. turns.h says what always-on and time-sliced entities,
 * turns and rounds are. demand.c moves entities between the two kinds, round_robin.c gives turns to time-sliced ones,
 * cap.c blocks those that have used their cap, class.c and slices.c choose hardware time slices.
 *
 * Two accounts per entity, both in time on the device:
 *      owed    of time-sliced entities: what the others have had too much of. The sum is about zero. A turn is the
 *              entity's part of a round plus what it is owed, so no error stays;
 *      debt    of all: time used beyond the share of the time that passed, never below zero. An always-on entity whose
 *              debt exceeds its allowance wants more than its share, and becomes time-sliced.
 */
#pragma once

#include "turns/turns.h"

enum {
        PPM = 1000000, /* shares in here are in parts per million: 200 tenants have half a percent each */
        N_HOLDS = 64,  /* turns remembered: as many as a late meter may not have counted yet */
        N_SAMPLES = 256,
        NOBODY = -1, /* instead of an entity's index */
};

#define SWITCH (100 * NSEC_PER_USEC) /* of a device from one tenant to another (docs/time.md) */
#define TURN_MIN (5 * NSEC_PER_MSEC) /* the calls for a turn cost 0.9 ms; a shorter one waits until more is owed */
#define TURNS_GOAL_ROOM (2 * NSEC_PER_MSEC) /* of a round, in the mean: beside a goal (steps.c, S7) */
#define TURN_SHORT (1500 * NSEC_PER_USEC)   /* the same, in rounds that steps.c has shortened */
#define SWITCHED_TO_MAX (6 * NSEC_PER_MSEC) /* the device is on a holder with work by then: calls take 0.7 ms or more */
#define SWITCHED_TO_SHORT (3 * NSEC_PER_MSEC) /* the same, in such rounds: sooner, and sometimes wrongly */
#define BURST_MAX (20 * NSEC_PER_MSEC)        /* longer than that is not a burst */
#define BURST_LONG (60 * NSEC_PER_MSEC)       /* the same, of one that is known to drain its queue */
#define SLICED (10 * NSEC_PER_MSEC)           /* a slice is in force by then */
#define LATE (5 * NSEC_PER_MSEC)              /* a meter further behind says nothing about this moment */

#define SLICE_OWN 0                      /* the driver's own */
#define SLICE_SHARED (2 * NSEC_PER_MSEC) /* of a tenant with several groups: they share its turn by slices */
#define SLICE_SHARED_TINY NSEC_PER_MSEC
#define SLICE_LATENCY (20 * NSEC_PER_MSEC)      /* never ends before the tenant's work does */
#define SLICE_INSTANT (1 * NSEC_PER_USEC)       /* of the only one that yields: 40 us sooner (docs/time.md) */
#define SLICE_TINY (50 * NSEC_PER_USEC)         /* of one of several that yield */
#define SLICE_ALWAYS_ON (4 * NSEC_PER_MSEC)     /* short work is not interrupted */
#define SLICE_TIME_SLICED (500 * NSEC_PER_USEC) /* the longest wait of an always-on entity */
#define SLICE_STEP_MAX (32 * NSEC_PER_MSEC)     /* of a synchronous entity: longer than its step */

/* What a tenant used over the last second, as points of a curve: for a cap over any second. */
struct usage_point {
        nsec at, used;
};

struct usage {
        struct usage_point points[N_SAMPLES];
        unsigned int first, n;
        bool has_dropped; /* points of the last second */
};

struct entity {
        uint64_t id;
        uint32_t share;  /* ppm of the device; the sum over all entities is at most PPM */
        uint32_t weight; /* ppm of the time that time-sliced entities have; 0: always-on */

        nsec counted;              /* the view's `used`, at the latest call */
        nsec used;                 /* the same, and what it is thought to have used since */
        nsec spent;                /* of that, since the call before */
        uint64_t n_starts;         /* at the latest call */
        nsec started_at;           /* at the latest call */
        unsigned int n_groups;     /* at least 1 */
        unsigned int n_new_starts; /* since the call before */

        uint64_t gang; /* 0: none */
        enum turns_gang_state gang_state;
        uint32_t gang_weight; /* of the latest gang order; PPM: no limit */
        uint32_t fair;        /* ppm that it would have here if its gang's other devices did not matter */

        bool is_new;
        bool is_time_sliced;
        bool is_at_cap;        /* its weight is its cap */
        bool has_turn;         /* still to come in this round */
        nsec turn;             /* its length */
        unsigned int n_missed; /* short rounds in a row without a turn */
        nsec owed, debt;
        nsec yielded;       /* account.c, A2: what always-on entities may still have of its turns at their cost */
        nsec allowance;     /* of debt, while always-on */
        nsec saturated_for; /* while always-on: for so long it has wanted all there is */

        nsec probe_at, probe_pause; /* demand.c: when to probe next whether it is idle, and the pause after that */

        bool is_synchronous; /* steps.c: it launches, waits, and launches again */
        int drained;         /* how sure that is */
        nsec half_step;      /* of it; by the records, or by the rings */
        bool has_step;       /* by the records */
        nsec launched_at, launch_used, looked_at;
        unsigned int n_pending; /* looks in a row at which work waited: S8 */
        nsec beside;            /* what it had had, in n_beside intervals, when others began to work beside it */
        uint64_t n_beside;
        bool has_goal;
        enum turns_work work;          /* claims.c: what its rings say, unless the meter contradicts it */
        bool is_contradicted;          /* as long as the device does not switch to it */
        nsec claims_since, claimed_at; /* since when it has, off the device, and when last; 0: it does not */
        nsec denied_for;               /* so long it was enabled meanwhile, as of the meter */
        nsec held_back;                /* by the slices of others, at most */
        bool may_burst;                /* bursts.c: it is charged for use only, and looked at */
        bool was_cut;                  /* a slice seems to have ended its latest interval on the device */
        nsec quiet_at;                 /* since when looks find it off the device with nothing launched; 0: it is not */
        nsec may_wait;                 /* for the turns of others; INT64_MAX: it does not matter */
        nsec step_slice;               /* longer than its step; 0: none yet */
        nsec sliced_at;                /* when `slice` changed */
        nsec slice_before;

        bool is_enabled;  /* by the latest orders */
        nsec switched_at; /* when that changed */
        nsec slice;       /* by the latest orders */

        uint32_t rate_max; /* ppm that its cap leaves it; PPM: no cap */
        bool is_blocked;   /* it has used its cap */
        nsec stops_at;     /* when it will have, if enabled from now on */
        nsec tokens;       /* cap.c: what is left of the cycle that began at cycle_at */
        nsec cycle_at;
        nsec burnt; /* what it has used of that cycle */
        struct usage usage;
};

struct hold {
        nsec from;
        int entity;
};

/* The accounts as they were when a turn began. */
struct turn_account {
        nsec from;
        nsec used, counted;
        nsec always_on_used, sliced_used;
        nsec vacant;      /* nobody was on the device for so long since */
        bool was_blocked; /* its cap took the holder off */
};

/* The holder and the next time-sliced entity are enabled together, to see whether the holder is idle. */
struct probe {
        bool is_running;
        int next;
        nsec from;
        nsec used, lent;   /* metered time of the holder and of the next one, when it began */
        uint64_t n_starts; /* of the holder, when it began */
        nsec wait;         /* for the slices of all that worked beside the holder */
};

struct turns {
        struct turns_settings settings;
        enum turns_policy policy; /* in force: never AUTO */
        nsec now, before;         /* this call, the call before */
        nsec metered_until;

        struct entity entities[TURNS_TENANTS_MAX]; /* in the order of the view */
        struct entity spare[TURNS_TENANTS_MAX];
        size_t n, n_time_sliced;

        nsec period;
        nsec round; /* of the present round; the period, or less: steps.c */
        nsec round_at;
        int holder, latest;  /* index, or NOBODY: the present holder, and the latest one */
        bool is_switched_to; /* the device was seen to switch to the holder */
        nsec hold_from, hold_until;
        int given_by;             /* the holder before, until the device has switched; or NOBODY */
        bool is_awaited;          /* the holder had work when it was given the device */
        bool is_seized;           /* by a gang: nobody takes turns */
        nsec always_on_used;      /* by all always-on entities, ever */
        nsec sliced_used;         /* by all time-sliced ones */
        struct turn_account turn; /* of the holder */
        struct probe probe;
        nsec probe_after;           /* no probe before: one at a time, and not often */
        struct hold holds[N_HOLDS]; /* the newest at n_holds - 1 */
        unsigned int n_holds;

        nsec wake_at; /* the earliest reason for the next call */
};

static inline nsec nsec_min(nsec a, nsec b)
{
        return a < b ? a : b;
}

static inline nsec nsec_max(nsec a, nsec b)
{
        return a > b ? a : b;
}

static inline nsec part(nsec whole, uint32_t ppm)
{
        return whole / PPM * ppm + whole % PPM * ppm / PPM;
}

/* How long another's work waits for this entity's slices. */
static inline nsec slices_of(const struct entity *entity)
{
        return (entity->slice + SWITCH) * entity->n_groups;
}

/* It takes turns on this device, by round_robin.c: gangs.c gives those of a gang. */
static inline bool takes_turns_here(const struct entity *entity)
{
        return entity->is_time_sliced && entity->gang_state == TURNS_GANG_NONE;
}

static inline void wake_at(struct turns *turns, nsec at)
{
        turns->wake_at = nsec_min(turns->wake_at, at);
}

/* entities.c: the entities become the view's tenants; a tenant that was there before keeps its memory. */
void entities_follow(struct turns *turns, const struct turns_view *view);

/* steps.c. steps_look: which entities are synchronous, and how long they may wait. steps_round: how long the round that
 * begins now is; steps_turn: an entity's turn in it. */
void steps_look(struct turns *turns, const struct turns_view *view);
nsec steps_round(const struct turns *turns);
nsec steps_slice_in_force(const struct turns *turns, const struct entity *entity); /* it may not be, yet */
nsec steps_turn(const struct turns *turns, const struct entity *entity);
void steps_watch_handover(struct turns *turns, const struct turns_view *view); /* S1 */
bool steps_is_gentle(const struct turns *turns, const struct entity *entity);  /* S6 */

static inline bool is_short_round(const struct turns *turns)
{
        return turns->round < turns->period;
}

/* shares.c: entity->share of all; entity->weight of time-sliced entities. */
void shares_set(struct turns *turns, const struct turns_view *view);
void shares_weigh(struct turns *turns, const struct turns_view *view);

/* ranks.c: entities of gangs. ranks_look: what is said of them; ranks_obey: they follow the orders, and a gang
 * seizes the device or leaves it. */
void ranks_look(const struct turns *turns, const struct turns_view *view, struct turns_sign *ret);
void ranks_obey(struct turns *turns, const struct turns_view *view, const struct turns_gang_order *orders);

/* account.c: used, spent, debt and owed. account_hold: the entity that holds the device from now on, or NOBODY. */
void account_update(struct turns *turns, const struct turns_view *view);
void account_hold(struct turns *turns, int entity);
void account_turn_begin(struct turns *turns); /* of the holder */
void account_turn_end(struct turns *turns);   /* what it did not use is not owed to it */

/* What the meter knows since the call before: from `from` on, of which nobody was on the device for `vacant`. */
struct meter_span {
        nsec from, vacant;
};

/* claims.c: entity->work, from what the rings say and what the device did. */
void claims_look(struct turns *turns, const struct turns_view *view, const struct meter_span *span);

/* cap.c: blocks entities that have used their cap. cap_rate: the ppm that are given of it, a little less than the cap,
 * so that calls may be late. */
uint32_t cap_rate(const struct turns_tenant *tenant);
void cap_update(struct turns *turns, const struct turns_view *view);

/* bursts.c: what is more than its share of an entity that may burst. bursts_longest: for how long it may want all it
 * can get. bursts_look: of all, before any is charged. */
void bursts_allow(struct turns *turns, struct entity *entity, const struct turns_tenant *tenant);
nsec bursts_longest(const struct entity *entity);
void bursts_look(const struct turns *turns, struct entity *entity, const struct turns_tenant *tenant);
bool bursts_is_idle(const struct turns *turns, const struct turns_view *view, int entity);
void bursts_charge(struct turns *turns, const struct turns_view *view, int entity, nsec spent_by_all, nsec waited);

/* demand.c. demand_join: always-on entities that want more than their share become time-sliced. demand_allow: sets
 * entity->allowance. demand_watch: a holder without work becomes always-on, and its turn ends. */
void demand_join(struct turns *turns, const struct turns_view *view);
void demand_allow(struct turns *turns, const struct turns_view *view);
void demand_watch(struct turns *turns, const struct turns_view *view);
bool demand_is_open(const struct turns *turns, const struct turns_view *view); /* D2: the meter cannot say yet */
bool demand_wants_more(const struct entity *entity, bool is_latency);
void demand_time_slice(struct entity *entity, bool is_latency); /* from now on */
nsec demand_beside(const struct turns *turns, const struct turns_view *view,
                   int entity); /* how long its work may wait for the slices of others */

/* round_robin.c: which entity holds the device. round_robin_after: the next one that still has a turn in this round;
 * round_robin_other: the next time-sliced one, with a turn or not. Both: an index, or NOBODY. */
void round_robin_next(struct turns *turns, const struct turns_view *view);
int round_robin_after(const struct turns *turns, int entity);
int round_robin_other(const struct turns *turns, int entity);
void round_robin_pause(struct turns *turns, nsec until); /* a gang has the device until then */
void round_robin_give(struct turns *turns, int entity, nsec from);
void strict_next(struct turns *turns);

/* slices.c, class.c: the time slices of the orders. */
void slices_set(const struct turns *turns, struct turns_order *orders);
void class_set(const struct turns *turns, const struct turns_view *view, struct turns_order *orders);
