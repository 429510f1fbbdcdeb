/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: what its rooms share. One loop thread owns all of it; the threads beside it (a scheduler per device, the
 * store's log, the watches for Xids and unmanaged processes) have state of their own and are reached through their
 * headers.
 *
 *      daemon/             daemon.c the process and its loop; settings.c; listeners.c, connection.c the sockets of
 *                          tenants and shims; watch.c Xids; health.c figures of the devices; unmanaged.c processes
 *                          that are nobody's; notify.c systemd
 *      daemon/containers/  agent.c notify descriptors from container runtimes; pending.c containers on their way to a
 *                          lease; container_request.c what they may be leased; ghosts.c those that kubelet forgot;
 *                          attach.c programs that hand themselves over
 *      daemon/api/         requests over HTTP: api_*.c pure (request in, response out), http.c their sockets
 *      daemon/state/       the tables and what changes them: tenants.c, admit.c (a request to a lease, or a refusal),
 *                          shims.c and shim_messages.c, preloads.c and preload_lease.c (tenants without a shim),
 *                          devices.c, mps.c, mig.c, allocations.c, ghost.c, usage.c, events.c
 *      daemon/store/       what outlives a daemon, in SQLite
 *
 * This room may see everything below it but no room of sockets (daemon, daemon/containers, daemon/api): those call it.
 * In tests store, http, watch and a device's scheduler may be NULL: then nothing is kept, answered, watched or
 * scheduled.
 */
#pragma once

#include "base/loop.h"
#include "gpu/backend.h"
#include "gpu/find.h"
#include "gpu/health.h"
#include "daemon/state/allocations.h"
#include "daemon/state/balance.h"
#include "daemon/state/mps/mps.h"
#include "daemon/state/starts.h"
#include "sched/sched.h"
#include "daemon/state/tenants.h"

struct pending_container;
struct caller;
struct http;
struct store;
struct unmanaged;
struct connection;
struct watch;

/* How tenants are suspended. */
enum suspend_by {
        SUSPEND_BY_CHECKPOINT, /* by the driver's own calls */
        SUSPEND_BY_AUTO,       /* by copies, where most of a tenant's memory can be moved so; else by checkpoint */
        SUSPEND_BY_COPIES,     /* by copies, or not at all */
};

/* What a daemon does that was not told. */
#define SUSPEND_BY_DEFAULT SUSPEND_BY_AUTO

struct settings {
        char dir[96];                             /* sockets and the lock */
        char state[256];                          /* the store's file */
        const char *listen;                       /* ADDR:PORT, or NULL */
        const char *token, *cert, *key, *callers; /* files, of daemon/api/credentials.h; or NULL */
        const char *host_root;                    /* mps_at.root; NULL: ours */
        const char *own_memory;                   /* file of wire/own_file.h; NULL: the usual one */
        struct turns_settings turns;
        bool overcommits;
        enum suspend_by suspend_by;
        bytes swap;         /* host memory for suspended tenants, in all; 0: no limit, and no lease with --swap */
        permille swap_cost; /* of a turn of a tenant with --swap, that moving may cost */
        bool stops_unmanaged;
        nsec patience; /* for a pod's container to get its allocation */
        gid_t group;   /* whose members may lease and ask; GROUP_ANY: every user */
};

#define DAEMON_PORT "9180" /* of --listen, by convention: deploy/kubernetes, src/kube/kubectl */

/* 0; 1: help was printed; -EINVAL. */
int settings_parse(struct settings *settings, int argc, char **argv, struct err *err);

struct device {
        struct daemon *daemon;
        unsigned int index;
        struct gpu_device info;
        struct sched *sched;
        struct mps *mps;                                  /* its MPS servers */
        struct gpu_instance instances[GPU_INSTANCES_MAX]; /* by the latest mig_scan */
        unsigned int n_instances;
        struct loop_source source; /* its events */
        bool is_lost;
        struct balance balance;    /* its total against the books */
        struct gpu_figures health; /* device_health */
        nsec health_at;            /* clock_now when it was read; 0: never */
        uint64_t n_xids, xid;      /* Xids since the daemon began, and the latest */

        struct sched_device scheduled; /* device_read */
        struct sched_row rows[TURNS_TENANTS_MAX];
        size_t n_rows;
        nsec read_at;
};

enum {
        DEVICE_HEALTH_MSEC = 5000, /* from one reading of its health to the next: a third of Prometheus' usual period */
};

enum {
        EVENTS_KEPT = 1024,   /* in memory, for followers */
        EVENTS_A_SECOND = 50, /* of level INFO that are stored */
};

struct event {
        uint64_t id;                     /* 0: an empty slot */
        nsec time;                       /* since the epoch */
        const char *level, *name, *line; /* of events.def */
        char tenant[64];                 /* "": none */
        int64_t owner;                   /* uid; -1: none */
        int device;                      /* -1: none */
        char detail[256];
};

struct daemon {
        struct settings settings;
        uid_t uid;  /* ours: it may do everything, as root may */
        nsec since; /* clock_realtime */
        struct gpu_backend backend;
        struct lease machine; /* the table of devices, none granted */
        struct device devices[LEASE_DEVICES_MAX];
        unsigned int n_devices;
        struct together *together; /* which gangs are on; shared by the schedulers of all devices */
        struct tenants tenants;
        struct tenant_way ways[2][2]; /* the latest of any tenant, of a GiB at least: by copies, back */
        struct allocations allocations;
        nsec ghosts_at; /* clock_now of the latest search for ghosts */

        nsec heartbeat_at; /* clock_now */

        nsec looks_took;    /* what looks at usage segments have taken since the tick's began */
        nsec looks_at;      /* clock_now; usage segments are not looked at before (preloads.c E2) */
        uint64_t looked_at; /* the tenancy whose segment was the last that there was time for; 0: for all */

        struct loop *loop;
        struct store *store;
        struct http *http;
        char url[300];                            /* of settings.listen, as it came to be; "": none */
        void (*on_change)(struct daemon *daemon); /* NULL: nobody waits for changes */
        struct watch *watch;                      /* NULL: Xids are not told */
        struct health *health;
        struct unmanaged *unmanaged;
        struct connection *connections;
        unsigned int n_connections;
        nsec stuck_at; /* when DESCRIPTORS_STUCK was said; 0: never */
        bool is_stuck;
        struct caller *callers; /* of agent.c */
        unsigned int n_callers;
        struct starts starts;                         /* of tenancies, by user */
        struct pending_container *pending_containers; /* of pending.c */
        unsigned int n_pending;

        struct event events[EVENTS_KEPT]; /* a ring: id modulo its size */
        uint64_t event_id;                /* of the latest */
        nsec stored_since;                /* begin of the second that the two count in: */
        unsigned int n_stored, n_dropped; /* events of level INFO */
        bool store_has_failed;
        bool is_silent;     /* events are not written to stderr (tests) */
        bool is_recovering; /* shims of the daemon before are still awaited */
};

/* Whether a user may do everything: root and the daemon's own. */
static inline bool daemon_is_master(const struct daemon *daemon, uid_t uid)
{
        return uid == 0 || uid == daemon->uid;
}

/* Refreshes device->scheduled and device->rows from its scheduler, unless they are younger than 5 ms. */
void device_read(struct device *device);
void daemon_remember(struct daemon *daemon); /* each second: what tenants have had of it */
const struct sched_row *device_row(const struct device *device, const struct tenant *tenant); /* NULL: not there */

/* What the device told of its health lately; NULL: nothing, or its reader has been stuck for three periods. */
const struct gpu_figures *device_health(const struct device *device);

/* A device fell off the bus: its tenants get an event, once. */
void device_lose(struct device *device);

/* Adds the tenant to the schedulers of its devices, or removes it. */
void daemon_schedule(struct daemon *daemon, struct tenant *tenant);
void daemon_unschedule(struct daemon *daemon, struct tenant *tenant);

/* After a lease was added, changed or removed: divides the shares anew and passes what changed to the schedulers and
 * the control blocks. */
void daemon_divide(struct daemon *daemon);

/* Which tenants have ended and are kept (tenant.is_kept), as their shims have it; what they do not need is others'. */
void daemon_look_kept(struct daemon *daemon);

/* Writes the heartbeat on all control blocks if it is due. For the loop, and for whatever may keep the loop for
 * long. */
void daemon_heartbeat(struct daemon *daemon);

/* Something has happened that an API call may wait for. Cheap; may be called from within an answer. */
void daemon_changed(struct daemon *daemon);
