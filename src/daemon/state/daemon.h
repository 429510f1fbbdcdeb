/*
 * The daemon: what its parts share. One loop thread owns all of this; the threads beside it (a scheduler per
 * device, the store's log, the watch for Xids) have their own and are talked to through their headers.
 *
 *      doors.c     the sockets at which tenants ask and shims come back
 *      agent.c     the socket at which container runtimes send notify descriptors; pending containers.c what becomes of them
 *      admit.c     from a request to a lease, or a refusal
 *      shims.c   the conversation with each tenant's shim
 *      preloads.c  tenants without one: their programs have libsublet.so inside
 *      usage.c     from control blocks to the store, once a second
 *      events.c    what an operator may see happen
 *      api*.c      questions and orders over HTTP (pure: request in, response out); http.c carries them
 *
 * store, http, watch and the devices' scheduler may be NULL: then nothing is kept, told or turned (tests).
 */
#pragma once

#include "base/loop.h"
#include "gpu/backend.h"
#include "gpu/find.h"
#include "daemon/state/allocations.h"
#include "daemon/state/mps.h"
#include "sched/sched.h"
#include "daemon/state/tenants.h"
#include "daemon/state/admit.h"

struct pending_container;
struct caller;
struct http;
struct store;
struct unmanaged;
struct connection;
struct watch;

struct settings {
        char dir[96];       /* sockets and the lock */
        char state[256];    /* the store's file */
        const char *listen; /* ADDR:PORT, or NULL */
        struct turns_settings turns;
        bool overcommits;
        bool stops_unmanaged;
        nsec patience; /* of a container with what is allocated to it */
};

extern const char settings_usage[];

/* 0; 1: help was asked for; -EINVAL. */
int settings_parse(struct settings *settings, int argc, char **argv, struct err *err);

struct device {
        struct daemon *daemon;
        unsigned int index;
        struct gpu_device info;
        struct sched *sched;
        struct mps mps;
        struct gpu_instance instances[GPU_INSTANCES_MAX]; /* as of the latest mig_scan */
        unsigned int n_instances;
        struct loop_source source; /* its events */
        bool is_lost;
        uint64_t n_lost; /* records, in all */

        struct sched_device scheduled; /* device_read */
        struct sched_row rows[TURNS_TENANTS_MAX];
        size_t n_rows;
        nsec read_at;
};

enum {
        EVENTS_KEPT = 1024,   /* in memory, for those who follow */
        EVENTS_A_SECOND = 50, /* of level INFO, are stored */
};

struct event {
        uint64_t id;                     /* 0: an empty place */
        nsec time;                       /* since the epoch */
        const char *level, *name, *line; /* of events.def */
        char tenant[64];                 /* "": of nobody */
        int64_t owner;                   /* -1: nobody's */
        int device;                      /* -1: none */
        char detail[256];
};

struct daemon {
        struct settings settings;
        uid_t uid;  /* ours: who has it may do everything, as root may */
        nsec since; /* clock_realtime */
        struct gpu_backend backend;
        struct lease machine; /* its table of cards, granted to nobody */
        struct device devices[LEASE_DEVICES_MAX];
        unsigned int n_devices;
        struct tenants tenants;
        struct allocations allocations;

        nsec heartbeat_at; /* clock_now */

        struct loop *loop;
        struct store *store;
        struct http *http;
        void (*on_change)(struct daemon *daemon); /* NULL: nobody waits for changes */
        struct watch *watch;
        struct unmanaged *unmanaged;
        struct connection *connections;
        unsigned int n_connections;
        struct caller *callers; /* agent.c */
        unsigned int n_callers;
        struct pending_container *pending_containers; /* pending containers.c */
        unsigned int n_pending;

        struct event events[EVENTS_KEPT]; /* a ring: id modulo its size */
        uint64_t event_id;                /* of the latest */
        nsec stored_since;                /* the second in which ... */
        unsigned int n_stored, n_dropped; /* ... so many events of level INFO came */
        bool store_has_failed;
        bool is_silent;     /* events are not written to stderr (tests) */
        bool is_recovering; /* tenants of the daemon before are still awaited */
};

/* What the scheduler knows now, or knew a moment ago. */
void device_read(struct device *device);
const struct sched_row *device_row(const struct device *device, const struct tenant *tenant); /* NULL: not there */

/* A device fell off the bus: whoever has it is told, once. */
void device_lose(struct device *device);

/* After a lease was put, changed or taken: shares are divided anew, and what has changed is told to the scheduler
 * and written on the control blocks. */
void daemon_divide(struct daemon *daemon);

/* Tells the shims that we live, if it is time to. The loop does, and whatever may keep the loop for long. */
void daemon_heartbeat(struct daemon *daemon);

/* Something has happened that somebody may wait for. Cheap; may be called from within an answer. */
void daemon_changed(struct daemon *daemon);
