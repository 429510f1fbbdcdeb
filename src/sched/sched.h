/*
 * The pace: one thread per device that makes the device follow the turns. It reads the meter, attributes
 * what it says to tenants, asks turns_next, and lets on and keeps off. All driver calls of the daemon
 * happen here and nowhere else.
 *
 *      pace_start(backend, device, &settings, &pace, err);
 *      pace_add(pace, &tenant);        once its keeper has handed its board over
 *      pace_change(pace, id, ...);     counts at once: the thread is woken
 *      pace_read(pace, &device, rows, n);
 *      pace_remove(pace, id);          then the board may be unmapped
 *      pace_stop(pace);                everybody is let on, slices are the driver's own again
 *
 * P1  No function here but pace_start and pace_stop waits for the driver: LOCK_PACE is never held across a call.
 * P2  Of a board, only `is_off`, `slice`, `watch` and `used` of devices[device] are written here. The beat, share,
 *     cap and class are the daemon's loop's.
 * P3  is_off is written on the board before the call, and `used` after each reading of the meter: a daemon that
 *     dies leaves a board that says what is, and the next one goes on counting from it.
 * P4  Only a tenant's compute channels are switched, a call for several tenants where that is possible.
 */
#pragma once

#include "gpu/backend.h"
#include "wire/control_block.h"
#include "sched/trace.h"
#include "turns/turns.h"

struct err;
struct pace;

struct pace_settings {
        struct turns_settings turns;
        nsec watch; /* period of the keepers' look for signs of work; 0: the default, negative: never */
};

struct pace_tenant {
        uint64_t id;         /* not 0, never reused */
        struct board *board; /* borrowed until pace_remove; counting goes on from its `used` */
        permille share, cap;
        enum turns_class class;
};

/* What is known of a tenant on this device. */
struct pace_row {
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
        bool is_off;       /* kept off now */
        bool wants;        /* has work, as far as can be told */
        bool is_waiting;   /* has work, and is not on the device */
        bool has_failed;   /* the latest call to switch it failed */
};

struct pace_device {
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

enum pace_event_kind {
        PACE_METER_LOST, /* detail: records that the driver dropped */
        PACE_NO_METER,   /* detail: -errno of meter_open */
        PACE_DEVICE_LOST,
        PACE_NOT_SWITCHED, /* tenant could not be let on or kept off; detail: the driver's status. Once, until it can */
        PACE_SWITCHED,     /* and now it can again */
        PACE_N_EVENTS,
};

struct pace_event {
        enum pace_event_kind kind;
        nsec at;         /* clock_now */
        uint64_t tenant; /* 0: the device as such */
        int64_t detail;
};

/* backend is borrowed and outlives the pace. device: PCI bus order, as in the lease. 0; -ENODEV; -errno. Blocks for
 * as long as opening a device takes. */
int pace_start(const struct gpu_backend *backend, unsigned int device, const struct pace_settings *settings,
               struct pace **ret, struct err *err);

/* Lets everybody on, and ends the thread. NULL is fine. Waits for a driver call under way. */
struct pace *pace_stop(struct pace *pace);

int pace_add(struct pace *pace, const struct pace_tenant *tenant); /* 0; -EEXIST; -ENOSPC: TURNS_TENANTS_MAX; -ENOMEM */

/* Afterwards the board is not touched any more, and the tenant is let on, if it still has channels.
 * *ret_used may be NULL. 0; -ENOENT. */
int pace_remove(struct pace *pace, uint64_t id, nsec *ret_used);

int pace_change(struct pace *pace, uint64_t id, permille share, permille cap, enum turns_class class); /* 0; -ENOENT */
void pace_set(struct pace *pace, const struct turns_settings *turns);

/* Looks again at once: a tenant has got channels, say. Cheap. */
void pace_wake(struct pace *pace);

/* A consistent picture; rows may be NULL. The number of rows written, at most n_room. */
size_t pace_read(struct pace *pace, struct pace_device *ret, struct pace_row *rows, size_t n_room);

/* Who is on the device: *ret_tenant (0: nobody known), since *ret_since. False: nobody. As of metered_until. */
bool pace_resident(struct pace *pace, uint64_t *ret_tenant, nsec *ret_since);

/* Events wait in a bounded queue (the oldest go); the descriptor is readable while there are any. */
int pace_fd(const struct pace *pace);
size_t pace_events(struct pace *pace, struct pace_event *ret, size_t n_room);

struct trace *pace_trace(struct pace *pace); /* borrowed */

const char *pace_event_name(enum pace_event_kind kind); /* "METER_LOST_RECORDS", as in sublet/events.def */
