/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the scheduler: what its files share.
 *
 *      sched.c     the daemon's side: adds, changes, reads and removes tenants
 *      thread.c    the thread's loop
 *      tally.c     attributes what the meter says
 *      quiet.c     time on the device without a sign of work: what of it is billed; idle.c estimates it
 *      teams.c     tenants that share the device as one among others: their meter, and what each is billed
 *      together.c  what all devices decide together
 *      orders.c    carries out what turns_next says
 *      engines.c   the same for the fixed-function engines, each by itself
 *
 * All is under LOCK_SCHED, except the members below "thread", which only the thread uses.
 */
#pragma once

#include "sched/sched.h"

#include "base/lock.h"
#include "base/map.h"
#include "gpu/meter.h"
#include "sched/idle.h"
#include "turns/teams.h"
#include "turns/engines.h"

#include <pthread.h>

enum {
        SCHED_RECORDS = 4096,   /* of the meter, read at once */
        SCHED_TICKS = 21,       /* points of the past second, with both ends */
        SCHED_EVENTS = 64,      /* in the queue */
        SCHED_CONTEXTS = 128,   /* of one tenant that the meter may name */
        SCHED_UNKNOWN_MAX = 64, /* processes that were reported and are not again */
};

#define SCHED_TICK (50 * NSEC_PER_MSEC)

/* A tenant that is alone stays on the device without records, also while it is idle (measured). So it is kicked now and
 * then: disabled and enabled again. If it was idle, the meter does not see it return, and its time ends; if not, it has
 * lost a millisecond, and the next kick comes later. Where its launches are seen, quiet.c says when; else it comes
 * after that long on the device. */
#define KICK_FIRST (100 * NSEC_PER_MSEC)
#define KICK_LAST (3200 * NSEC_PER_MSEC)
#define KICK_ANSWER (5 * NSEC_PER_MSEC)

#define QUIET_PASS (5 * NSEC_PER_MSEC) /* between two looks at a tenant that is on the device without a sign of work */

/* The channels of a tenant on this device, as its control block has them. */
struct sched_channels {
        struct gpu_channel *list; /* on any engine: all of them are switched */
        uint8_t *engines;         /* enum rm_engine of each */
        uint32_t *orders;         /* control_channel.order of each, which no other ever has */
        size_t n_of[RM_N_ENGINES];
        size_t n, n_compute;               /* which are first */
        unsigned int n_groups;             /* compute groups */
        uint32_t contexts[SCHED_CONTEXTS]; /* numbers of the groups' first channels */
        size_t n_contexts;
        uint32_t sequence; /* of the control block, when this was read */
        bool is_known;
};

/* A tenant on one engine. */
struct sched_engine {
        nsec used;         /* with work on it, since the tenant began */
        bool wants, is_on; /* has work for it, and may work, as of the latest look */
        nsec wanted_at;    /* when it last had work */
        nsec enabled_at;   /* by the latest call */
        bool is_to_be_off; /* by the latest decision */
        bool is_disabled;  /* by the latest call, or while it is off the device */
        uint32_t sequence; /* of its channels at that call */
        uint32_t *off;     /* orders of those that are disabled by such calls, rising */
        size_t n_off;
        bool is_in_call, has_failed;
        nsec retry_at;
        nsec used_at[SCHED_TICKS]; /* at sched->ticks */
        struct trace_span span;    /* for the trace: TRACE_ENGINE_ON or _OFF, not ended; from 0: neither */
};

/* The tenants of a trust group. */
struct sched_team {
        uint64_t id;
        unsigned int n_mates;
        pid_t server; /* MPS's, in whose context they work; 0: not known, and each works in a context of its own */
        nsec closed;  /* on the device, in intervals that have ended */
        nsec used;    /* with the open one; never falls */
        nsec served;  /* of that, in the server's context */
        nsec billed;  /* of which so much is billed to mates */
        nsec started_at, stopped_at;
        uint64_t n_turns;
        nsec kicked_at, kick_after;
};

struct sched_entity {
        struct sched_entity *next; /* of sched->removed */
        struct sched_team *team;   /* NULL: none */
        uint64_t id, gang;
        struct control_block *control;
        struct control_device *device; /* on the control block */
        permille share, cap;
        enum turns_class class;
        nsec goal;
        struct sched_channels channels;

        nsec closed; /* metered, in intervals that have ended */
        nsec used;   /* with the open one, as of metered_until; never falls. For turns_next */
        nsec billed; /* used less what is forgiven of it; never falls. For all others */
        struct quiet {
                struct idle idle;
                nsec until;      /* quiet time is counted up to here */
                nsec drawn_at;   /* when a kick was last drawn for, or might have been */
                uint32_t n;      /* stretches that its shim has counted */
                nsec asked_sign; /* its latest sign of work before the kick */
                nsec resumed_at; /* when it was on the device next, 0: not yet */
                bool is_answer;  /* it is on the device since then */
        } quiet;
        struct waits waits; /* of a tenant with a goal */
        nsec late_said_at;
        nsec entitled;               /* what its share entitled it to since it was added */
        nsec started_at, stopped_at; /* on the device, the latest */
        uint64_t n_turns;
        bool wants;
        bool is_contradicted; /* its rings say that work waits, and the meter contradicts; at the latest decision */

        struct turns_order order; /* in force */
        nsec off_since;           /* when it was disabled; 0: it is enabled */
        bool is_disabled;         /* by the latest call that succeeded */
        bool is_retired;          /* disabled so that what ran might end */
        bool must_enable;         /* its shim has switched its channels, or it was removed while they were off */
        bool is_doubted;          /* others may have disabled its channels, too: gpu_channels_doubt */
        nsec doubted_until;       /* likewise */
        bool must_kick;
        struct stall {
                nsec since, after;  /* the device does nothing, and it may have work; when it is kicked for that */
                unsigned int n_due; /* kicks, as long as it does not come onto the device, whatever its rings say */
        } stall;
        nsec kicked_at, kick_after;
        bool is_in_call; /* a call that switches it is under way */
        bool has_failed, was_reenabled;
        nsec retry_at;

        nsec billed_at[SCHED_TICKS], entitled_at[SCHED_TICKS]; /* at sched->ticks */
        struct sched_engine engines[RM_N_ENGINES];
};

struct sched {
        struct lock lock;
        const struct gpu_backend *backend;
        struct sched_settings settings;
        bool is_over;
        int wake; /* an eventfd that ends the thread's sleep */

        struct sched_entity *tenants[TURNS_TENANTS_MAX];
        size_t n_tenants;
        struct map contexts;          /* context -> tenant */
        struct sched_entity *removed; /* whose channels the thread is to enable, or to forget */

        /* what is on the device, as of metered_until */
        bool is_occupied;
        struct sched_entity *resident; /* NULL, while occupied: a context of no tenant, or of a team's server */
        struct sched_team *team;       /* of which something is on it */
        uint32_t context, process;
        nsec occupied_since;
        uint32_t unknown[SCHED_UNKNOWN_MAX];
        size_t n_unknown; /* ever */

        struct sched_device state;
        nsec busy_used, ticked_at; /* how long the device was occupied, ever */
        nsec ticks[SCHED_TICKS], busy_at[SCHED_TICKS], foreign_at[SCHED_TICKS];
        size_t n_ticks; /* ever */

        struct sched_event events[SCHED_EVENTS];
        size_t n_events;
        int ready; /* an eventfd, readable while there are events */
        struct trace *trace;

        /* thread */
        pthread_t thread;
        struct gpu_client *client;
        struct meter *meter; /* NULL: none */
        struct turns *turns;
        struct engine_turns *engine_turns[RM_N_ENGINES];
        struct engine_tenant engine_view[TURNS_TENANTS_MAX];
        bool engine_is_off[TURNS_TENANTS_MAX];
        nsec engines_seen_at, engine_on_at[RM_N_ENGINES]; /* the latest look; when somebody was last on it */
        struct meter_record *records;
        struct turns_tenant view[TURNS_TENANTS_MAX];
        struct turns_order orders[TURNS_TENANTS_MAX];
        struct teams teams; /* what turns sees of the view, and what it says */
        struct teams_meter team_meters[TURNS_TENANTS_MAX];
        struct turns_order team_orders[TURNS_TENANTS_MAX];
        struct turns_sign signs[TURNS_TENANTS_MAX];
        struct turns_gang_order gang_orders[TURNS_TENANTS_MAX];
        bool has_told;                /* of gangs, in the latest pass: together.c */
        struct control_channel *rows; /* room for those of a control block */
        struct gpu_channel *list;     /* room for those of one call */
        size_t list_room;
        struct gpu_channel *gone; /* have ended: for gpu_channels_forget, in the next pass */
        size_t n_gone, gone_room;
};

/* sched.c */
void sched_event_put(struct sched *sched, enum sched_event_kind kind, uint64_t tenant, int64_t detail);
struct sched_entity *sched_entity_find(struct sched *sched, uint64_t id); /* NULL: none */
struct sched_entity *sched_entity_free(struct sched_entity *entity);      /* NULL is fine */
void sched_device_lost(struct sched *sched);                              /* by the thread: the device is lost */

/* thread.c */
void *sched_run(void *sched);

/* tally.c: under the lock */
void tally_records(struct sched *sched, const struct meter_record *records, size_t n);
void tally_until(struct sched *sched, nsec until); /* the records up to then have been read */
void tally_channels(struct sched *sched,
                    struct sched_entity *tenant); /* if its control block has changed; uses sched->rows */
void tally_forget(struct sched *sched, struct sched_entity *tenant);
void tally_second(struct sched *sched, nsec now); /* notes the figures of the past second */
void tally_rates(const struct sched *sched, const struct sched_entity *tenant, struct sched_row *ret);
void tally_device(const struct sched *sched, struct sched_device *ret);

/* teams.c: under the lock */
int team_join(struct sched *sched, struct sched_entity *tenant, uint64_t team); /* 0: none. 0; -ENOMEM */
void team_part(struct sched *sched, struct sched_entity *tenant);
struct sched_team *team_of_server(const struct sched *sched, uint32_t process);     /* NULL: none's */
void team_on(struct sched_team *team, nsec at);                                     /* NULL is fine; likewise below */
void team_off(struct sched_team *team, nsec from, nsec until, bool is_served);      /* an interval has ended */
void teams_until(struct sched *sched);                                              /* of metered_until */
void teams_view(struct sched *sched, const struct turns_view *view);                /* fills sched->teams */
bool team_is_at_work(const struct sched *sched, const struct sched_entity *tenant); /* in the server's context */
struct sched_team *team_kick(const struct sched *sched, nsec now); /* that is to be kicked now; NULL: none */

/* quiet.c: under the lock */
void quiet_account(struct sched *sched, struct sched_entity *tenant, nsec until); /* on the device until then */
void quiet_resumed(struct sched_entity *tenant, nsec at);                         /* the device has switched to it */
void quiet_settle(const struct sched *sched, struct sched_entity *tenant); /* the answer to a kick, once it is known */
bool quiet_kick(const struct sched *sched, struct sched_entity *tenant, nsec now); /* true: it is to be kicked now */
nsec quiet_next(const struct sched *sched, nsec now); /* when to look at whom is on the device and may be idle */

/* stall.c: under the lock */
void stall_expect(struct sched_entity *tenant); /* another than this thread has switched its channels */
bool stall_kick(const struct sched *sched, struct sched_entity *tenant, nsec now); /* true: it is to be kicked now */

/* engines.c: under the lock, but for engines_apply, which is as orders_apply */
int engines_new(struct sched *sched); /* -ENOMEM */
void engines_free(struct sched *sched);
void engines_adopt(const struct sched *sched, struct sched_entity *tenant);   /* as an earlier daemon left them */
void engines_release(const struct sched *sched, struct sched_entity *tenant); /* no order is in force any more */
void engines_note_off(const struct sched *sched, struct sched_entity *tenant, nsec now); /* all its channels are */
void engines_note_all_off(struct sched_entity *tenant);                  /* and the call has been made */
bool engines_has_off(const struct sched_entity *tenant, size_t channel); /* for its engine's sake, and it is known */
void engines_note_enabled(struct sched_entity *tenant);                  /* its shim has enabled all channels */
bool engines_are_off(const struct sched_entity *tenant);                 /* at least one is */
void engines_done(struct sched_entity *tenant);
nsec engines_decide(struct sched *sched, nsec now); /* after the device's orders */
bool engines_apply(struct sched *sched, nsec now);
void engines_second(struct sched *sched, size_t tick); /* notes the figures at a tick */
size_t engines_open(const struct sched_entity *tenant, struct trace_span spans[static RM_N_ENGINES]);

/* orders.c: by the thread, without the lock. False: the device is lost. */
bool orders_apply(struct sched *sched, nsec now);
bool orders_list(struct sched *sched, size_t n, const struct gpu_channel *channels, size_t n_more); /* false: no room */
int orders_call(struct sched *sched, size_t n, bool is_disabled, uint32_t *ret_status); /* 0; -ENODEV; -EIO */
void orders_end(struct sched *sched); /* enables all channels, with the driver's own slices */
