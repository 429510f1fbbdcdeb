/*
 * Inside the scheduler: what its files share.
 *
 *      pace.c          the daemon's side: tenants come, go and are looked at
 *      sched_thread.c   one turn of the thread after the other
 *      sched_tally.c    what the meter says, attributed
 *      sched_orders.c   what turns_next says, carried out
 *
 * All under LOCK_SCHED but what is marked «thread», which is the thread's own.
 */
#pragma once

#include "sched/sched.h"

#include "base/lock.h"
#include "base/map.h"
#include "gpu/meter.h"

#include <pthread.h>

enum {
        SCHED_RECORDS = 4096, /* of the meter, that are read at once */
        SCHED_TICKS = 21,     /* points of the past second, and the one that it begins with */
        SCHED_EVENTS = 64,    /* that wait to be fetched */
        SCHED_CONTEXTS = 128, /* of one tenant that the meter may name */
};

#define SCHED_TICK (50 * NSEC_PER_MSEC)

/* A tenant that is alone stays on the device without records, also when it is idle (measured). So one that has been
 * there that long without a sign of work is kicked: put off and let on again. If it was idle, the meter does not see
 * it come back, and its time ends; if not, it has lost a millisecond, and the next kick comes later. */
#define KICK_FIRST (100 * NSEC_PER_MSEC)
#define KICK_LAST (3200 * NSEC_PER_MSEC)
#define KICK_ANSWER (5 * NSEC_PER_MSEC)

/* What tells a channel of the control block apart. */
struct sched_channels {
        struct gpu_channel *compute; /* the channels that are switched */
        size_t n_compute;
        uint32_t contexts[SCHED_CONTEXTS]; /* numbers of the groups' first channels */
        size_t n_contexts;
        uint32_t sequence; /* of the control block, as of this */
        bool is_known;
};

struct sched_entity {
        uint64_t id;
        struct control_block *control;
        struct control_device *device; /* on the control block */
        permille share, cap;
        enum turns_class class;
        struct sched_channels channels;

        nsec closed;    /* metered, of intervals that are over */
        nsec used;      /* with the open one, as of metered_until; never falls. What the turns go by */
        nsec idle;      /* of that, on the device without work: sched_tally.c */
        nsec idle_tail; /* thought idle at the end of the latest interval */
        nsec idle_tail_launch, resumed_at; /* the latest launch then; when it came on since, 0: not yet */
        nsec billed;                       /* used less idle; never falls. What everybody else goes by */
        nsec entitled;                     /* what its share entitled it to, ever */
        nsec started_at;
        uint64_t n_turns;
        bool wants;

        struct turns_order order; /* the present one */
        nsec off_since;           /* when it was switched off; 0: it is on */
        bool is_disabled;         /* so the device has been told */
        bool must_kick;
        nsec kicked_at, kick_after;
        bool is_in_call; /* one that switches it is under way */
        bool has_failed, was_reenabled;
        nsec retry_at;

        nsec billed_at[SCHED_TICKS], entitled_at[SCHED_TICKS]; /* at pace->ticks */
};

/* Channels that a tenant left behind, to be let on. */
struct leftovers {
        struct leftovers *next;
        size_t n;
        struct gpu_channel channels[];
};

struct sched {
        struct lock lock;
        const struct gpu_backend *backend;
        struct sched_settings settings;
        bool has_new_settings, is_over;
        int wake; /* an eventfd: the thread is to look again */

        struct sched_entity *tenants[TURNS_TENANTS_MAX];
        size_t n_tenants;
        struct map contexts; /* context -> tenant */
        struct leftovers *leftovers;

        /* who is on the device, as of metered_until */
        bool is_occupied;
        struct sched_entity *resident; /* NULL, while taken: somebody that is not known */
        uint32_t context;
        nsec occupied_since;

        struct sched_device state;
        nsec busy_used, ticked_at; /* somebody was on the device, ever */
        nsec ticks[SCHED_TICKS], busy_at[SCHED_TICKS], foreign_at[SCHED_TICKS];
        size_t n_ticks; /* ever */
        nsec turned_at;

        struct sched_event events[SCHED_EVENTS];
        size_t n_events;
        int ready; /* an eventfd, readable while there are events */
        struct trace *trace;

        /* thread */
        pthread_t thread;
        struct gpu_client *client;
        struct meter *meter; /* NULL: none */
        struct turns *turns;
        struct meter_record *records;
        struct turns_tenant view[TURNS_TENANTS_MAX];
        struct turns_order orders[TURNS_TENANTS_MAX];
        struct control_channel *rows; /* room for a control block's */
        struct gpu_channel *list;     /* room for a plan's */
        size_t list_room;
};

/* pace.c */
void sched_event_put(struct sched *sched, enum sched_event_kind kind, uint64_t tenant, int64_t detail);
struct sched_entity *sched_entity_find(struct sched *sched, uint64_t id); /* NULL: none */
void sched_device_lost(struct sched *sched);                              /* the device is */

/* sched_thread.c */
void *sched_run(void *sched);

/* sched_tally.c: under the lock */
void tally_records(struct sched *sched, const struct meter_record *records, size_t n);
void tally_until(struct sched *sched, nsec until); /* the records up to then have been read */
void tally_channels(struct sched *sched,
                    struct sched_entity *tenant); /* if its control block has changed; uses pace->rows */
void tally_forget(struct sched *sched, struct sched_entity *tenant);
void tally_second(struct sched *sched, nsec now); /* notes the past second's figures */
void tally_rates(const struct sched *sched, const struct sched_entity *tenant, struct sched_row *ret);
void tally_device(const struct sched *sched, struct sched_device *ret);

/* sched_orders.c: by the thread, without the lock. False: the device is lost. */
bool orders_apply(struct sched *sched, nsec now);
void orders_end(struct sched *sched); /* everybody on, the driver's own slices */
