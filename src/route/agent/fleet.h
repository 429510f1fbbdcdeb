/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replicas as the agent knows them, and the configuration of each for the module: a pure function of what is
 * known (fleet_config). The parts of the agent store what they find here and do nothing else; sync.c compares the
 * configuration with the one that the module acknowledged. So a restarted nginx, a lost answer and a changed file are
 * one case.
 *
 * Threads: the agent's one.
 */
#pragma once

#include "base/clock.h"
#include "route/agent/scrape.h"
#include "route/settings/settings.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct agent;
struct http_pool_call;

enum fleet_health {
        FLEET_UNKNOWN, /* not probed yet */
        FLEET_HEALTHY,
        FLEET_UNHEALTHY,
};

enum fleet_sleep {
        FLEET_AWAKE,
        FLEET_FALLING, /* the module knows, the engine does not yet */
        FLEET_ASLEEP,
        FLEET_WAKING,
};

enum {
        FLEET_FILE = -1, /* origin: the file; else the index of a Kubernetes service */
        FLEET_NAME = -2, /* ... or one of the addresses of a name in the file */
        FLEET_MAX = SETTINGS_REPLICAS,
};

struct fleet_replica {
        struct agent *agent;
        char name[SETTINGS_NAME], address[SETTINGS_WORD];
        char numeric[SETTINGS_WORD]; /* its address, not as a name; empty: the name did not resolve yet */
        struct lookup *lookup;       /* under way (names.c) */
        nsec lookup_at;
        bool is_unresolved;            /* the last one failed */
        int family;                    /* of the addresses that count */
        bool is_several;               /* its name has several: each is a replica of its own, and this one is none */
        bool is_short;                 /* there was no room for all of them */
        char member_of[SETTINGS_NAME]; /* the replica whose name has this address, among others; "": none */
        struct replica_settings config;
        int origin;
        bool is_listed; /* its source still lists it */
        bool is_ready;  /* from Kubernetes; of the file: always */
        bool is_terminating;

        enum fleet_health health;
        unsigned int n_failures, n_downs; /* in a row; how often it was found down */
        bool was_gone;                    /* connections were refused: the next process has an empty cache */
        struct settings_models found;
        bool has_models, has_engine;
        struct scrape engine;
        nsec probe_at, scrape_at, models_at;

        bool is_tenant, is_suspended;
        unsigned int share; /* permille, of its daemon */
        int daemon;

        enum fleet_sleep sleep;
        bool knows_sleep, is_ordered; /* the engine reported whether it sleeps; the present order was obeyed */
        nsec sleep_since, wake_took, wake_again, sleep_at; /* wake_again: no wake-up before */
        pid_t command;                                     /* process that wakes it or puts it to sleep; 0: none */

        /* The module's last state of it. */
        bool is_there; /* it had one when the agent began */
        bool is_tripped;
        nsec tripped_at, forgive_at;
        unsigned int n_trips;
        long long inflight, wanted, sent;
        bool is_hearsay; /* another router put it out, and it is tripped for that */

        /* Of other routers. */
        uint64_t sent_elsewhere;
        bool must_trip; /* one put it out, and the module must be told */
        nsec idle_since;

        bool must_forget;
        json_t *acknowledged, *pushing;
        nsec push_at;
        struct http_pool_call *probe, *scrape, *list_models, *push, *order;
};

struct fleet {
        size_t n;
        struct fleet_replica *at[FLEET_MAX];
};

struct fleet_replica *fleet_find(const struct fleet *fleet, const char *name);

/* NULL: no memory, or there are FLEET_MAX. */
struct fleet_replica *fleet_add(struct fleet *fleet, const char *name);
void fleet_remove(struct fleet *fleet, struct fleet_replica *replica); /* the caller cancels its calls */

const char *fleet_state(const struct fleet_replica *replica); /* "up", "asleep", "draining", "down" */
const char *fleet_why(const struct fleet_replica *replica);   /* why it is not up, for messages */

bool fleet_is_used(const struct fleet_replica *replica); /* listed, and not a name whose addresses are the replicas */

bool fleet_is_unsure(const struct fleet_replica *replica); /* it is not up because it was not asked yet */

/* The body of PUT /v1/replicas/NAME; the caller's reference. NULL: no memory. */
json_t *fleet_config(const struct fleet_replica *replica);

/* The name that its certificate must have; ret is written to where it is not in the settings. */
const char *fleet_server_name(const struct fleet_replica *replica, char ret[SETTINGS_WORD]);

const char *fleet_tenant(const struct fleet_replica *replica);
