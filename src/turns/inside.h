/*
 * What a struct turns remembers, for the files of this room only.
 *
 * A tenant of the view has a entity. It is a *always-on tenant* or a *time-sliced tenant*:
 *      a always-on tenant is on all the time. It wants less than its share, or nothing: the device takes it on by its own
 *      slices, and an idle always-on tenant costs nothing;
 *      time-sliced tenants want all they can get. They have the device in turns, one holder at a time, the others off.
 * demand.c moves entities between the two, round robin.c gives time-sliced tenants their turns, cap.c blocks those who have had
 * their cap, class.c chooses slices.
 *
 * Two accounts per entity, both in time on the device:
 *      owed    of time-sliced tenants: what the others have had too much. Sums to about zero; a turn is the tenant's part of
 *              a round plus what it is owed, so no error stays;
 *      debt    of everybody: used beyond the share of time that passed, never below zero. A always-on tenant whose debt
 *              exceeds its allowance wants more than its share, and becomes a time-sliced tenant.
 */
#pragma once

#include "turns/turns.h"

enum {
        PPM = 1000000, /* shares inside are in parts per million: 200 tenants have half a percent each */
        N_HOLDS = 64,  /* turns remembered: as many as a late meter may not have counted yet */
        N_SAMPLES = 256,
};

#define SWITCH (100 * NSEC_PER_USEC) /* of a device from one tenant to another (docs/time.md) */
#define TURN_MIN (5 * NSEC_PER_MSEC) /* calls for a turn cost 0.9 ms; what is shorter waits until it is owed more */
#define TAKE_ON_MAX                                                                                                    \
        (6 * NSEC_PER_MSEC)      /* a holder with work is on the device by then: calls take 0.7 ms, or some more */
#define LATE (5 * NSEC_PER_MSEC) /* a meter further behind tells nothing about this moment */

#define SLICE_OWN 0                      /* the driver's */
#define SLICE_SHARED (2 * NSEC_PER_MSEC) /* of a tenant with several groups: they share its turn by slices */
#define SLICE_SHARED_TINY NSEC_PER_MSEC
#define SLICE_LATENCY (20 * NSEC_PER_MSEC)  /* never taken off the device by a slice's end */
#define SLICE_INSTANT (1 * NSEC_PER_USEC)   /* gives way, alone beside who is in a hurry: 40 us sooner (docs/time.md) */
#define SLICE_TINY (50 * NSEC_PER_USEC)     /* gives way, and others do, too */
#define SLICE_ALWAYS_ON (4 * NSEC_PER_MSEC) /* short work is not interrupted */
#define SLICE_TIME_SLICED (500 * NSEC_PER_USEC) /* so long may a always-on tenant wait */

/* The uses of a tenant over the last second: points of its curve, for a cap over any second. */
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
        uint32_t share;  /* ppm of the device, all entities together at most PPM */
        uint32_t weight; /* ppm of the time-sliced tenants' time; 0: a always-on tenant */

        nsec counted;              /* the view's `used`, at the latest call */
        nsec used;                 /* the same, and what it is thought to have had since */
        nsec spent;                /* of that, since the call before */
        uint64_t n_starts;         /* at the latest call */
        nsec started_at;           /* at the latest call */
        unsigned int n_groups;     /* at least 1 */
        unsigned int n_new_starts; /* starts since the call before */

        bool is_new;
        bool is_time_sliced;
        bool is_at_cap; /* its weight is */
        bool has_turn;  /* in this round, still to come */
        nsec turn;      /* its length */
        nsec owed, debt;
        nsec allowance;     /* of debt, for a always-on tenant */
        nsec saturated_for; /* so long has a always-on tenant wanted all there is */

        nsec probe_at, probe_pause; /* demand.c: when to try next whether it wants, and the pause after that */

        bool is_on;    /* by the latest orders */
        nsec on_since; /* of the latest change */
        nsec slice;    /* by the latest orders */

        uint32_t rate_max; /* ppm that its cap leaves it; PPM: it has none */
        bool is_blocked;   /* has had its cap */
        nsec stops_at;     /* will have had it, if on from now */
        nsec tokens;       /* cap.c: what is left of the cycle that began at: */
        nsec cycle_at;
        nsec burnt; /* of it, so far */
        struct usage usage;
};

enum {
        NOBODY = -1,
};

struct hold {
        nsec from;
        int entity;
};

/* The holder and another time-sliced tenant are on together, to see whether the holder still wants. */
struct probe {
        bool is_on;
        int next;
        nsec from;
        nsec used, lent;   /* the holder's and the next one's time, metered, when it began */
        uint64_t n_starts; /* the same */
        nsec wait;         /* for the slices of all who were at work beside the holder */
};

struct turns {
        struct turns_settings settings;
        enum turns_policy policy; /* that rules: never AUTO */
        nsec now, before;         /* this call, the call before */
        nsec metered_until;

        struct entity entities[TURNS_TENANTS_MAX]; /* in the order of the view */
        struct entity spare[TURNS_TENANTS_MAX];
        size_t n, n_time_sliced;

        nsec period;
        nsec round_at;
        int holder, latest; /* index; NOBODY. Who has the turn; who had it last */
        bool is_taken_on;   /* the device was seen to take the holder on */
        nsec hold_from, hold_until;
        struct probe probe;
        nsec probe_after;           /* no trial before: one at a time, and not often */
        struct hold holds[N_HOLDS]; /* a ring; the newest at n_holds - 1 */
        unsigned int n_holds;

        nsec wake_at; /* the earliest reason to be called again */
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

/* So long does another's work wait for this tenant's slices. */
static inline nsec slices_of(const struct entity *entity)
{
        return (entity->slice + SWITCH) * entity->n_groups;
}

static inline void wake_at(struct turns *turns, nsec at)
{
        turns->wake_at = nsec_min(turns->wake_at, at);
}

/* entities.c: the entities are the view's tenants, with what was known of them. */
void entities_follow(struct turns *turns, const struct turns_view *view);

/* shares.c: entity->share of all; entity->weight of those who are time-sliced tenants. */
void shares_set(struct turns *turns, const struct turns_view *view);
void shares_weigh(struct turns *turns, const struct turns_view *view);

/* account.c: used, spent, debt and owed. */
void account_update(struct turns *turns, const struct turns_view *view);
void account_hold(struct turns *turns, int entity); /* who holds the device from now on */

/* cap.c: blocks who has had its cap. cap_rate: what is given of it, ppm; a little less, so that calls may be late. */
uint32_t cap_rate(const struct turns_tenant *tenant);
void cap_update(struct turns *turns, const struct turns_view *view);

/* demand.c */
void demand_join(struct turns *turns,
                 const struct turns_view *view);    /* always-on tenants that want more become time-sliced tenants */
void demand_leave(struct turns *turns, int entity); /* a time-sliced tenant is a always-on tenant from now on */
void demand_allow(struct turns *turns, const struct turns_view *view); /* entity->allowance */
void demand_watch(struct turns *turns, const struct turns_view *view); /* is the holder at work? */

/* round robin.c: whose turn it is. */
void round_robin_next(struct turns *turns, const struct turns_view *view);
int round_robin_after(const struct turns *turns, int entity); /* the next that has a turn in this round, or NOBODY */
int round_robin_other(const struct turns *turns,
                      int entity); /* another time-sliced tenant, the next in order, or NOBODY */
void round_robin_give(struct turns *turns, int entity, nsec from);
void round_robin_pass(struct turns *turns); /* the holder's turn is over */
void strict_next(struct turns *turns);

/* slices.c, class.c: the slices of the orders. */
void slices_set(const struct turns *turns, struct turns_order *orders);
void class_set(const struct turns *turns, const struct turns_view *view, struct turns_order *orders);

/* auto.c */
enum turns_policy auto_pick(const struct turns *turns);
nsec auto_period(const struct turns *turns);
