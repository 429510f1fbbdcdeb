/*
 * The scheduler: one thread per device that makes the device follow the turns. It reads the meter, attributes
 * what it says to tenants, asks turns_next, and lets on and keeps off. All driver calls of the daemon
 * happen here and nowhere else.
 *
 *      sched_start(backend, device, &settings, &pace, err);
 *      sched_add(pace, &tenant);        once its shim has handed its control block over
 *      sched_change(pace, id, ...);     counts at once: the thread is woken
 *      sched_read(pace, &device, rows, n);
 *      sched_remove(pace, id);          then the control block may be unmapped
 *      sched_stop(pace);                everybody is let on, slices are the driver's own again
 *
 * P1  No function here but sched_start and sched_stop waits for the driver: LOCK_SCHED is never held across a call.
 * P2  Of a control block, only `is_disabled`, `slice`, `watch` and `used` of devices[device] are written here. The heartbeat, share,
 *     cap and class are the daemon's loop's.
 * P3  is_disabled is written on the control block before the call, and `used` after each reading of the meter: a daemon that
 *     dies leaves a control block that says what is, and the next one goes on counting from it.
 * P4  Only a tenant's compute channels are switched, a call for several tenants where that is possible.
 */
#pragma once

#include "gpu/backend.h"
#include "wire/control_block.h"
#include "sched/trace.h"
#include "turns/turns.h"

struct err;
struct sched;

struct sched_settings {
        struct turns_settings turns;
        nsec watch; /* period of the shims' look for signs of work; 0: the default, negative: never */
};

struct sched_tenant {
        uint64_t id;                   /* not 0, never reused */
        struct control_block *control; /* borrowed until sched_remove; counting goes on from its `used` */
        permille share, cap;
        enum turns_class class;
};

/* What is known of a tenant on this device. */
struct sched_row {
        uint64_t id;
        permille share, cap;
        enum turns_class class;
        nsec used;         /* metered since the tenant began, less what it was on the device without work */
        permille granted;  /* metered, of the latest second */
        permille promised; /* what its share entitled it to in that second, as far as it wanted */
        nsec started_at;   /* when the device last took it on, clock_now; 0: never */
        nsec slice;        /* hardware timeslice that is wished; 0: the driver's own */
        uint64_t n_turns;  /* how often it has come onto the device */
        bool is_resident;  /* on the device, as of the meter */
        bool is_disabled;  /* kept off now */
        bool wants;        /* has work, as far as can be told */
        bool is_waiting;   /* has work, and is not on the device */
        bool has_failed;   /* the latest call to switch it failed */
};

struct sched_device {
        unsigned int device;
        struct turns_settings turns;
        nsec metered_until; /* the records of the device have been read up to here */
        nsec turned_at;     /* the thread's latest turn: old while a driver call does not come back */
        permille busy;      /* some tenant, or somebody else, was on the device in the latest second */
        permille foreign;   /* of that: contexts of nobody known here */
        nsec foreign_used;  /* since the start */
        uint64_t n_switches, n_lost, n_calls, n_failed;
        nsec calls_time; /* spent in driver calls */
        nsec cpu;        /* of the thread */
        bool has_meter;  /* false: time is not measured, and shares are not kept; reason in an event */
        bool is_lost;    /* the device fell off the bus; nothing is done any more */
        unsigned int n_tenants;
};

enum sched_event_kind {
        SCHED_METER_LOST, /* detail: records that the driver dropped */
        SCHED_NO_METER,   /* detail: -errno of meter_open */
        SCHED_DEVICE_LOST,
        SCHED_NOT_SWITCHED, /* tenant could not be let on or kept off; detail: the driver's status. Once, until it can */
        SCHED_SWITCHED,     /* and now it can again */
        SCHED_N_EVENTS,
};

struct sched_event {
        enum sched_event_kind kind;
        nsec at;         /* clock_now */
        uint64_t tenant; /* 0: the device as such */
        int64_t detail;
};

/* backend is borrowed and outlives the scheduler. device: PCI bus order, as in the lease. 0; -ENODEV; -errno. Blocks for
 * as long as opening a device takes. */
int sched_start(const struct gpu_backend *backend, unsigned int device, const struct sched_settings *settings,
                struct sched **ret, struct err *err);

/* Lets everybody on, and ends the thread. NULL is fine. Waits for a driver call under way. */
struct sched *sched_stop(struct sched *sched);

int sched_add(struct sched *sched,
              const struct sched_tenant *tenant); /* 0; -EEXIST; -ENOSPC: TURNS_TENANTS_MAX; -ENOMEM */

/* Afterwards the control block is not touched any more, and the tenant is let on, if it still has channels.
 * *ret_used may be NULL. 0; -ENOENT. */
int sched_remove(struct sched *sched, uint64_t id, nsec *ret_used);

int sched_change(struct sched *sched, uint64_t id, permille share, permille cap,
                 enum turns_class class); /* 0; -ENOENT */
void sched_set(struct sched *sched, const struct turns_settings *turns);

/* Looks again at once: a tenant has got channels, say. Cheap. */
void sched_wake(struct sched *sched);

/* A consistent picture; rows may be NULL. The number of rows written, at most n_room. */
size_t sched_read(struct sched *sched, struct sched_device *ret, struct sched_row *rows, size_t n_room);

/* Who is on the device: *ret_tenant (0: nobody known), since *ret_since. False: nobody. As of metered_until. */
bool sched_resident(struct sched *sched, uint64_t *ret_tenant, nsec *ret_since);

/* Events wait in a bounded queue (the oldest go); the descriptor is readable while there are any. */
int sched_fd(const struct sched *sched);
size_t sched_events(struct sched *sched, struct sched_event *ret, size_t n_room);

struct trace *sched_trace(struct sched *sched); /* borrowed */

const char *sched_event_name(enum sched_event_kind kind); /* "METER_LOST_RECORDS", as in sublet/events.def */
