/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What outlives a daemon: tenancies, usage, events. One SQLite file.
 *
 *      S1  Usage is written with the figure up to which it has been counted, in one transaction: after a kill the next
 *          daemon counts on from there, nothing twice, and nothing is lost while the shim lives.
 *      S2  Writing does not wait for the disk (WAL, synchronous=NORMAL); a thread copies the log every half minute. A
 *          power failure may lose that much, a killed daemon nothing.
 *
 * Usage is kept in buckets of a minute, after two days of an hour.
 *
 * This room sees leases and nothing of the daemon. Thread: the loop.
 */
#pragma once

#include "rm/engines.h"
#include "wire/messages.h"

#include <sys/types.h>

struct err;
struct store;

enum {
        STORE_BUCKET = 60,         /* seconds */
        STORE_EVENTS = 100 * 1000, /* the newest are kept */
        STORE_ENDED = 1000,        /* ended tenants that a list shows, the newest */
};

int store_open(const char *path, struct store **ret, struct err *err); /* 0; -errno; -EIO: SQLite's reason in err */
struct store *store_close(struct store *store);                        /* NULL is fine */
const char *store_error(struct store *store);                          /* SQLite's text for the latest failure */

/* Calls it now and then during a long query, on the calling thread: for the heartbeat. */
void store_on_progress(struct store *store, void (*call)(void *context), void *context);

/* A transaction: what is written in between is kept together or not at all. 0; -EIO. */
int store_begin(struct store *store);
int store_commit(struct store *store);
void store_rollback(struct store *store);

/* ---- tenancies. All return 0 or -EIO. */

/* *ret_id: a number that was never used before. */
int store_tenant_new(struct store *store, const struct message_lease *lease, nsec since, uint64_t *ret_id);

/* Updates the lease of lease->id, and its shim. */
int store_tenant_set(struct store *store, const struct message_lease *lease, pid_t shim);

/* Adds a tenancy of another store, with its number. */
int store_tenant_adopt(struct store *store, const struct message_lease *lease, pid_t shim, nsec since);
int store_tenant_end(struct store *store, uint64_t id, nsec ended, const char *report); /* report: JSON or NULL */

/* The tenancies that have not ended, the oldest first. */
int store_tenants_living(struct store *store,
                         void (*each)(void *context, const struct message_lease *lease, pid_t shim, nsec since),
                         void *context);

/* Appends {"id", "lease", "since", "ended", "report"} of the newest ended ones; owner -1: of all. */
int store_tenants_ended(struct store *store, int64_t owner, json_t *array);

/* ---- usage */

struct store_usage {
        uint64_t tenant;
        unsigned int device;
        const char *uuid;
        nsec at; /* since the epoch; selects the bucket */

        nsec gpu;             /* to add */
        uint64_t kib_ms;      /* to add: memory of the device times time */
        uint64_t refused;     /* to add */
        uint64_t host_kib_ms; /* to add: host memory of a suspended tenant times time */

        nsec counted_used; /* cumulative: up to where is counted (S1) */
        uint64_t counted_refused;
        bytes held, peak, swapped;

        nsec engines[RM_N_ENGINES],
                counted_engines[RM_N_ENGINES]; /* to add, and cumulative; [RM_ENGINE_NONE]: not used */
};

int store_usage_add(struct store *store, const struct store_usage *usage);

/* Up to where a tenant on a device is counted; zero: not at all. *ret_at: when last. */
int store_usage_counted(struct store *store, uint64_t tenant, unsigned int device, struct store_usage *ret,
                        nsec *ret_at);

/* Which usage. Both ends are those of buckets, rounded down: a span counts nothing that the next one begins with. */
struct store_usage_query {
        nsec since, until;  /* until 0: to the end */
        const char *tenant; /* NULL: of all */
        int64_t owner;      /* -1: of all */
        const char *by;     /* "user", "namespace", "label:NAME"; NULL: a row per tenant name and owner */
};

bool store_usage_by_is_good(const char *by);

/* Appends a row per device and tenant, or what they are summed by. */
int store_usage_list(struct store *store, const struct store_usage_query *query, json_t *array);

/* Merges old minutes into hours and drops old events. To be called now and then. */
int store_tidy(struct store *store, nsec now);

/* ---- events */

struct store_event {
        uint64_t id;                                       /* given by store_event_put */
        nsec time;                                         /* since the epoch */
        const char *level, *name, *tenant, *line, *detail; /* tenant "": none */
        int64_t owner;                                     /* uid; -1: none */
        int64_t device;                                    /* -1: none */
};

uint64_t store_event_last(struct store *store); /* the largest id ever used; 0: none */
int store_event_put(struct store *store, const struct store_event *event);

/* The newest `most` that match, the oldest first. owner -1: of all, and of none. */
int store_events_list(struct store *store, nsec since, const char *tenant, int64_t owner, unsigned int most,
                      void (*each)(void *context, const struct store_event *event), void *context);
