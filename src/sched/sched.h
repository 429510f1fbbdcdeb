/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU time scheduler: one thread per device that makes the device follow the turns (turns/turns.h), some of which
 * the devices take together (sched/together.h). It reads the meter, attributes what the meter says to tenants, asks for
 * orders, and enables and disables channels accordingly. The daemon's driver calls for GPU time happen here and nowhere
 * else.
 *
 *      sched_start(backend, device, &settings, &sched, err);
 *      sched_add(sched, &tenant);       once its shim has handed its control block over
 *      sched_change(sched, id, ...);    takes effect at once: the thread is woken
 *      sched_read(sched, &device, rows, n);
 *      sched_remove(sched, id);         then the control block may be unmapped
 *      sched_stop(sched);               all channels are enabled, slices are the driver's own again
 *
 * P1  No function here but sched_start and sched_stop waits for the driver: LOCK_SCHED is never held across a call.
 * P2  Of a control block, the scheduler writes `is_disabled`, `slice`, `watch` and `used` of devices[device] only, and
 *     goes on with a heartbeat that the daemon's loop has begun. Share, cap and class are written by that loop.
 * P3  is_disabled is written to the control block before the call is made, and `used` after each reading of the meter:
 *     a daemon that dies leaves control blocks that state the truth, and the next daemon goes on counting from them.
 * P4  All channels of a tenant are switched, on whatever engine they say they are, with one call for several tenants
 *     where possible. Tenants that are on share each fixed-function engine by itself: sched/engines.c.
 */
#pragma once

#include "gpu/backend.h"
#include "wire/control_block.h"
#include "sched/trace.h"
#include "turns/turns.h"
#include "turns/waits.h"

struct err;
struct sched;
struct together;

struct sched_settings {
        struct turns_settings turns;
        struct together *together; /* borrowed; which gangs are on, for all devices. NULL: none are known */
        nsec watch;                /* period at which shims check for signs of work; 0: the default, negative: never */
};

struct sched_tenant {
        uint64_t id;                   /* not 0, never reused */
        uint64_t team;                 /* the same for all that share the device as one (turns/teams.h); 0: none */
        uint64_t gang;                 /* the same for all that comes on together; 0: it is alone (turns/gangs.h) */
        struct control_block *control; /* borrowed until sched_remove; counting starts from its `used` */
        permille share, cap;
        enum turns_class class;
        nsec goal; /* turns.h */
};

/* A tenant on a fixed-function engine of this device: sched/engines.c says how it is metered. */
struct sched_row_engine {
        nsec used;        /* with work on it, since the tenant began */
        permille granted; /* of the latest second */
        bool is_disabled; /* its turn there is over */
        bool has_channels;
};

/* A tenant on this device. */
struct sched_row {
        uint64_t id;
        nsec used;                 /* metered since the tenant began, less its time on the device without work */
        permille granted;          /* metered in the latest second */
        permille promised;         /* what its share entitled it to in that second, as far as it wanted */
        bool is_resident;          /* on the device, as of the meter */
        bool is_disabled;          /* its channels are disabled */
        bool wants;                /* has work, as far as can be seen */
        bool is_waiting;           /* has work, and is not on the device */
        struct waits_report waits; /* of a tenant with a goal; else all zero */
        struct sched_row_engine engines[RM_N_ENGINES]; /* [RM_ENGINE_NONE] is all zero */
};

struct sched_device {
        unsigned int device;
        struct turns_settings turns;
        nsec metered_until; /* the records of the device have been read up to here */
        nsec turned_at;     /* the latest pass of the thread: old while a driver call does not return */
        permille busy;      /* of the latest second: any context was on the device */
        permille foreign;   /* of that: contexts that belong to no tenant */
        nsec foreign_used;  /* since the start */
        uint64_t n_switches, n_lost, n_calls;
        nsec cpu;       /* of the thread */
        bool has_meter; /* false: time is not measured and shares are not kept; an event has the reason */
        bool is_lost;   /* the device fell off the bus: the thread does nothing any more */
        unsigned int n_tenants;
};

enum sched_event_kind {
        SCHED_METER_LOST, /* detail: records that the driver dropped */
        SCHED_NO_METER,   /* detail: -errno of meter_open */
        SCHED_DEVICE_LOST,
        SCHED_NOT_SWITCHED, /* channels could not be switched; detail: the driver's status. Once, until they can */
        SCHED_SWITCHED,     /* and now they can again */
        SCHED_LATE,         /* a step took longer than its goal; detail: us. Once a minute for a tenant */
        SCHED_UNKNOWN, /* the meter names a context of no tenant; detail: process << 32 | context. Once a process */
        SCHED_N_EVENTS,
};

struct sched_event {
        enum sched_event_kind kind;
        nsec at;         /* clock_now */
        uint64_t tenant; /* 0: the device itself */
        int64_t detail;
};

/* backend is borrowed and outlives the scheduler. device: PCI bus order, as in the lease. 0; -ENODEV; -errno. Blocks
 * for as long as opening a device takes. */
int sched_start(const struct gpu_backend *backend, unsigned int device, const struct sched_settings *settings,
                struct sched **ret, struct err *err);

/* Enables all channels and ends the thread. NULL is fine. Waits for a driver call under way. */
struct sched *sched_stop(struct sched *sched);

int sched_add(struct sched *sched,
              const struct sched_tenant *tenant); /* 0; -EEXIST; -ENOSPC: TURNS_TENANTS_MAX; -ENOMEM */

/* Afterwards the control block is not touched any more. Channels that are still there are enabled. *ret_used may be
 * NULL. 0; -ENOENT. */
int sched_remove(struct sched *sched, uint64_t id, nsec *ret_used);

int sched_change(struct sched *sched, uint64_t id, permille share, permille cap, enum turns_class class,
                 nsec goal); /* 0; -ENOENT */

/* In which process's context the mates of a team work; 0: each in its own. 0; -ENOENT: the team has no mates. */
int sched_team_serve(struct sched *sched, uint64_t team, pid_t server);

/* Makes the thread look at all tenants now. Cheap. */
void sched_wake(struct sched *sched);

/* A consistent snapshot; rows may be NULL. Returns the number of rows written, at most n_room. */
size_t sched_read(struct sched *sched, struct sched_device *ret, struct sched_row *rows, size_t n_room);

/* The tenant on the device (0: a context of no tenant; of a team, one that is at work) and since when, as of
 * metered_until. False: the device is idle. */
bool sched_resident(struct sched *sched, uint64_t *ret_tenant, nsec *ret_since);

/* What tenants do on other engines and have not ended: spans of the trace, without an end. Returns their number. */
size_t sched_engines_now(struct sched *sched, struct trace_span *spans, size_t n_room);

/* Events wait in a bounded queue, which drops the oldest; the descriptor is readable while there are any. */
int sched_fd(const struct sched *sched);
size_t sched_events(struct sched *sched, struct sched_event *ret, size_t n_room);

struct trace *sched_trace(struct sched *sched); /* borrowed */

const char *sched_event_name(enum sched_event_kind kind); /* "METER_LOST_RECORDS", as in sublet/events.def */
