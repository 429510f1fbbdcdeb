/*
 * What outlives a daemon: who was here, what they used, what happened. One SQLite file.
 *
 *      S1  What a tenant used is written with the figure up to which it has been counted, in one transaction:
 *          a daemon that is killed counts on from there, nothing twice and nothing lost while the shim lives.
 *      S2  Writing does not wait for the disk (WAL, synchronous=NORMAL); a thread of its own carries the log over
 *          every half minute. A machine that loses power may forget as much, a daemon that is killed nothing.
 *
 * Usage lies in buckets of a minute, those older than two days in buckets of an hour.
 *
 * Threads: the loop.
 */
#pragma once

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
const char *store_error(struct store *store);                          /* SQLite's word on the latest failure */

/* Called now and then during a long question, on the asking thread: whoever must show that it lives can. */
void store_on_progress(struct store *store, void (*tell)(void *context), void *context);

/* Everything between the two is written together, or not at all. 0; -EIO. */
int store_begin(struct store *store);
int store_commit(struct store *store);
void store_rollback(struct store *store);

/* ---- tenancies. All return 0 or -EIO. */

/* A new number, never given before. */
int store_tenant_new(struct store *store, const struct message_lease *lease, nsec since, uint64_t *ret_id);

/* The lease as it is now (its id says which), and its shim. */
int store_tenant_set(struct store *store, const struct message_lease *lease, pid_t shim);

/* One that came to a store that does not know it (another file, or closed too early). */
int store_tenant_adopt(struct store *store, const struct message_lease *lease, pid_t shim, nsec since);
int store_tenant_end(struct store *store, uint64_t id, nsec ended, const char *report); /* report: JSON or NULL */

/* Those that have not ended, the oldest first. */
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
        nsec at; /* since the epoch; the bucket it falls into gets the rest */

        nsec gpu;         /* to add */
        uint64_t kib_ms;  /* to add: memory times time */
        uint64_t refused; /* to add */

        nsec counted_used; /* cumulative: what is counted with this (S1) */
        uint64_t counted_refused;
        bytes held, peak;
};

int store_usage_add(struct store *store, const struct store_usage *usage);

/* What has been counted of a tenant on a device; all zero if nothing. *ret_at: when last. */
int store_usage_counted(struct store *store, uint64_t tenant, unsigned int device, struct store_usage *ret,
                        nsec *ret_at);

/* Appends a row per tenant name, owner and device: what it used from the bucket of `since` on. NULL, -1: of all. */
int store_usage_list(struct store *store, nsec since, const char *tenant, int64_t owner, json_t *array);

/* Old minutes into hours, old events away: now and then. */
int store_tidy(struct store *store, nsec now);

/* ---- events */

struct store_event {
        uint64_t id;                                       /* given by store_event_put */
        nsec time;                                         /* since the epoch */
        const char *level, *name, *tenant, *line, *detail; /* tenant "": of nobody */
        int64_t owner;                                     /* of the tenant; -1: nobody's */
        int64_t device;                                    /* -1: none */
};

uint64_t store_event_last(struct store *store); /* the largest id ever used; 0: none */
int store_event_put(struct store *store, const struct store_event *event);

/* The oldest first: at most `most` of the newest that fit. owner -1: also nobody's and everybody's. */
int store_events_list(struct store *store, nsec since, const char *tenant, int64_t owner, unsigned int most,
                      void (*each)(void *context, const struct store_event *event), void *context);
