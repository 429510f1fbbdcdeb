/*
 * The daemon: what its parts share. One loop thread owns all of this; the threads beside it (a pace per
 * device, the store's log, the watch for Xids) have their own and are talked to through their headers.
 *
 *      doors.c     the sockets at which tenants ask and keepers come back
 *      agent.c     the socket at which container runtimes send notify descriptors; arrivals.c what becomes of them
 *      admit.c     from a request to a lease, or a refusal
 *      keepers.c   the conversation with each tenant's keeper
 *      preloads.c  tenants without one: their programs have libsublet.so inside
 *      usage.c     from boards to the store, once a second
 *      events.c    what an operator may see happen
 *      api*.c      questions and orders over HTTP (pure: request in, response out); http.c carries them
 *
 * store, http, watch and the devices' pace may be NULL: then nothing is kept, told or turned (tests).
 */
#pragma once

#include "base/loop.h"
#include "gpu/backend.h"
#include "gpu/find.h"
#include "node/allocations.h"
#include "node/mps.h"
#include "node/pace.h"
#include "node/tenants.h"

#include <stdarg.h>

struct arrival;
struct caller;
struct http;
struct store;
struct strangers;
struct visitor;
struct watch;

struct settings {
        char dir[96];       /* sockets and the lock */
        char state[256];    /* the store's file */
        const char *listen; /* ADDR:PORT, or NULL */
        struct turns_settings turns;
        bool overcommits;
        bool stops_strangers;
        nsec patience; /* of a container with what is allocated to it */
};

extern const char settings_usage[];

/* 0; 1: help was asked for; -EINVAL. */
int settings_parse(struct settings *settings, int argc, char **argv, struct err *err);

/* Whoever may write to it could put another's file in the place of ours, or its own sockets. 0; -errno. */
int daemon_check_directory(const char *dir, struct err *err);

struct device {
        struct daemon *daemon;
        unsigned int index;
        struct gpu_device info;
        struct pace *pace;
        struct mps mps;
        struct gpu_instance instances[GPU_INSTANCES_MAX]; /* as of the latest mig_look */
        unsigned int n_instances;
        struct loop_source source; /* its events */
        bool is_lost;
        uint64_t n_lost; /* records, in all */

        struct pace_device paced; /* device_read */
        struct pace_row rows[TURNS_TENANTS_MAX];
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

        nsec beat_at; /* clock_now */

        struct loop *loop;
        struct store *store;
        struct http *http;
        struct watch *watch;
        struct strangers *strangers;
        struct visitor *visitors;
        unsigned int n_visitors;
        struct caller *callers; /* agent.c */
        unsigned int n_callers;
        struct arrival *arrivals; /* arrivals.c */
        unsigned int n_arrivals;

        struct event events[EVENTS_KEPT]; /* a ring: id modulo its size */
        uint64_t event_id;                /* of the latest */
        nsec stored_since;                /* the second in which ... */
        unsigned int n_stored, n_dropped; /* ... so many events of level INFO came */
        bool store_has_failed;
        bool is_silent;     /* events are not written to stderr (tests) */
        bool is_recovering; /* tenants of the daemon before are still awaited */
};

/* What the pace knows now, or knew a moment ago. */
void device_read(struct device *device);
const struct pace_row *device_row(const struct device *device, const struct tenant *tenant); /* NULL: not there */

/* A device fell off the bus: whoever has it is told, once. */
void device_lose(struct device *device);

/* After a lease was put, changed or taken: shares are divided anew, and what has changed is told to the pace
 * and written on the boards. */
void daemon_divide(struct daemon *daemon);

/* Tells the keepers that we live, if it is time to. The loop does, and whatever may keep the loop for long. */
void daemon_beat(struct daemon *daemon);

/* ---- admit.c */

/* A lease for a request by `owner`, taken into the table. 0; -errno for the peer: ENOSPC, EEXIST, EINVAL, ENODEV, EPERM,
 * with a line that says the next step. */
int admit(struct daemon *daemon, const struct message_request *request, uid_t owner, struct tenant **ret,
          struct err *err);

/* The lease of one whose command never ran returns. */
void admit_undo(struct daemon *daemon, struct tenant *tenant);

/* ---- doors.c */
int doors_open(struct daemon *daemon, struct err *err);
void doors_close(struct daemon *daemon);
void doors_answer(struct visitor *visitor, int r, const struct tenant *tenant, const char *why); /* of arrivals_ask */
void doors_tick(struct daemon *daemon); /* visitors who do not come to the point are shown out */

/* ---- agent.c */
struct ucred;
void agent_knock(struct daemon *daemon, int fd, const struct ucred *who); /* at seccomp.sock; fd is taken over */
void agent_tick(struct daemon *daemon);
void agent_close(struct daemon *daemon);

/* ---- keepers.c */

/* Starts the keeper of an admitted tenant; the descriptors stay the caller's. run: its supervisor's socket; init: a pidfd of
 * its container's first process; -1: there is none. 0; -errno. */
int keepers_start(struct daemon *daemon, struct tenant *tenant, int listener, int run, int init, struct err *err);

/* A keeper came back: its hello, and the socket, which is taken over on success. 0; -EPROTO. */
int keepers_return(struct daemon *daemon, struct message *hello, int socket, pid_t process);

/* Tells the keeper new quotas: its answer will have tenant->set_asked as its serial. 0; -errno (nothing was sent). */
int keepers_set(struct tenant *tenant);
int keepers_end(struct tenant *tenant); /* 0; -errno */

enum {
        KEEPERS_E_LATER = 1, /* it cannot be reached now */
};

/* Gives the keeper one more filter of its tenant's; the descriptor stays the caller's. 0; KEEPERS_E_LATER; -errno. */
int keepers_join(struct tenant *tenant, int listener);
void keepers_tell(struct tenant *tenant, const struct event *event);
void keepers_tick(struct daemon *daemon);    /* looks after those who are awaited */
void keepers_settle(struct daemon *daemon);  /* ends the tenancies whose keepers have said that they ended */
void keepers_reap(struct daemon *daemon);    /* on SIGCHLD */
void keepers_recover(struct daemon *daemon); /* awaits those whom the store knows */
void keepers_leave(struct daemon *daemon);   /* lets go of all: the daemon ends, they do not */

/* A number for a tenancy that has none yet: the store's, or one that none had before. */
void keepers_number(struct daemon *daemon, struct tenant *tenant);
void keepers_finish(struct daemon *daemon, struct tenant *tenant); /* the end of a tenancy: it is freed */

/* ---- preloads.c: tenants that have libsublet.so inside, and no keeper */

/* Gives an admitted tenant its page and region, and answers `socket` with them, which is taken over on success; where the
 * request names a place, they are made there, and the socket stays the caller's. 0; -errno. */
int preloads_start(struct daemon *daemon, struct tenant *tenant, const struct message_request *request, int socket,
                   struct err *err);

/* `sublet run` came back to a new daemon, with page and region of its tenancy. As preloads_start. */
int preloads_return(struct daemon *daemon, struct message *message, int socket, const struct ucred *who);

void preloads_tick(struct daemon *daemon);                           /* looks at their books */
void preloads_recover(struct daemon *daemon, struct tenant *tenant); /* one of the daemon before us */
int preloads_end(struct tenant *tenant);                             /* as keepers_end, which it does, too */

bool preloads_resume(struct daemon *daemon, struct tenant *tenant); /* its gate has ended, the tenancy has not */

/* ---- attach.c */

/* A word at attach.sock. *tenancy: 0 at first; which one the visitor is about to attach. True: it is done with. */
bool attach_hear(struct daemon *daemon, int socket, uint64_t *tenancy, struct message *message);
void attach_undo(struct daemon *daemon, uint64_t tenancy); /* the visitor left */

/* ---- usage.c */
void usage_start(struct daemon *daemon, struct tenant *tenant);   /* once its board is there */
void usage_restart(struct daemon *daemon, struct tenant *tenant); /* its board is a new one, which begins at 0 */
void usage_count(struct daemon *daemon);                          /* once a second, and before somebody asks */
void usage_count_last(struct daemon *daemon, struct tenant *tenant);

/* ---- events.c */
enum gate_event;

/* tenant and device may be missing (NULL, -1). Written to the log, the store, and those who follow. */
void event_tell(struct daemon *daemon, int event, const struct tenant *tenant, int device, const char *format, ...)
        __attribute__((format(printf, 5, 6)));

/* The number of an event by its name; -1: there is none. */
int event_find(const char *name);

/* The next event behind `id` that is still in memory; NULL: none. */
const struct event *event_after(const struct daemon *daemon, uint64_t id);

/* Must be told when a write to the store failed or worked: says so once. */
void daemon_store_result(struct daemon *daemon, int r);

/* ---- watch.c: Xids and lost devices */
int watch_start(struct daemon *daemon, struct watch **ret); /* 0; -ENOTSUP; -errno */
struct watch *watch_stop(struct watch *watch);              /* NULL is fine; waits up to a second */

/* ---- strangers.c: who is on a device and no tenant */
int strangers_start(struct daemon *daemon, struct strangers **ret); /* 0; -ENOTSUP; -errno */
struct strangers *strangers_stop(struct strangers *strangers);      /* NULL is fine; waits up to a second */

/* ---- notify.c: systemd */
void notify(const char *state); /* "READY=1"; without NOTIFY_SOCKET nothing happens */
