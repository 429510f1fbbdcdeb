/* SPDX-License-Identifier: Apache-2.0 */
/* The modelled router, and what it knows of its replicas. For the simulator only. */
#pragma once

#include "route/index.h"
#include "route/queue.h"
#include "route/rate.h"
#include "simulator/run.h"

/* One request under way. */
struct flight {
        struct engine_request request;
        struct router_replica *replica; /* NULL: not sent */
        struct known *known;            /* of the router that sent it, of that replica */
        size_t router;                  /* which one it came to */
        struct rate_ticket ticket;
        struct queue_item item;
        double work;        /* that it would bring to the replica it waits for */
        uint32_t waits_for; /* index of a replica, or UINT32_MAX */
        uint32_t fresh;     /* uncached tokens as predicted */
        bool is_first_seen; /* by the router */
        bool is_stream;
        nsec first_at, end_at;
};

/* What one of the routers knows of one replica. */
struct known {
        struct rate rate;
        struct map active; /* key -> count of requests in flight with that block (as a pointer) */
        uint32_t inflight, unanswered, prefill, held;
        uint32_t context, polled_context; /* tokens of the prompts in flight, now and when the engine was polled */
        struct heard said, heard; /* to the others, when figures were exchanged last; by them, one exchange before */
};

struct router_replica {
        struct router *router;
        struct engine engine;
        nsec busy_until; /* INT64_MAX: idle */
        bool is_absent;  /* joins later */
        bool is_asleep;
        nsec cold;     /* its next iteration takes so much longer */
        nsec wakes_at; /* INT64_MAX: no wake-up under way */
        /* The state of a router: */
        struct cache copy; /* INDEX_LRU, INDEX_4096 */
        struct known known[SIM_ROUTERS_MAX];
        uint32_t wanted;    /* by requests that are held */
        double wanted_work; /* of those */
        /* The engine's figures when it was polled last (50 ms): */
        uint32_t polled_waiting, polled_kv;
        size_t n_sent;
};

/* Blocks that one router sent to a replica, and that the others hear of. */
struct told {
        const struct flight *flight;
        unsigned int replica;
        nsec at;
};

/* One, or several before the same replicas: setup.n_routers. */
struct router {
        const struct sim_setup *setup;
        struct router_replica *replicas;
        struct flight *flights; /* one per request of the load */
        struct flight **held;
        struct index *index[SIM_ROUTERS_MAX]; /* INDEX_OURS */
        struct told *told;                    /* in order of time; room for one per request */
        size_t n_told, n_heard;
        size_t n_held, n_ever_held, n_woken;
        uint64_t random, turn;
        nsec now, polled_at, exchanged_at;
};

int router_init(struct router *router, const struct sim_setup *setup); /* -ENOMEM */
void router_done(struct router *router);

/* Decides; the replica it was sent to, or NULL (held, refused). */
struct router_replica *router_arrive(struct router *router, struct flight *flight, nsec now);
/* Sends held requests that may go now, after a request ended at this replica. */
void router_release(struct router *router, const struct router_replica *replica, nsec now);
/* Its wake-up is complete. */
void router_woken(struct router *router, struct router_replica *replica, nsec now);

void router_change(struct router *router, const struct sim_change *change, nsec now);
