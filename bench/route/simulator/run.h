/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run: a load, replicas, and one policy, on virtual time. It takes seconds and gives the same result everywhere.
 *
 * enum sim_sees: what the modelled router knows of its replicas. SEES_ROUTER is what a real one has:
 * its own dispatches, first bytes and ends; its index, a ring per replica sized as its cache, filled at
 * decision; a rate seeded by the share and corrected by rate.h. SEES_ENGINE looks into the engines
 * (exact cache content, exact remaining prefill, exact rate) and bounds what better knowledge is worth.
 */
#pragma once

#include "route/routers/heard.h"
#include "route/pick.h"
#include "simulator/engine.h"
#include "simulator/load.h"

enum {
        SIM_REPLICAS_MAX = 64,
        SIM_ROUTERS_MAX = 4,
};

enum sim_sees {
        SEES_ROUTER,
        SEES_ENGINE,
};

enum sim_index {
        INDEX_OURS,  /* index.h, a ring of the true capacity per replica */
        INDEX_LRU,   /* a strict LRU copy of the true capacity */
        INDEX_EXACT, /* KV events without delay */
        INDEX_BOTH,  /* the same, and what is in flight there: no index can know more. Else the router is ours */
        INDEX_COPY,  /* the strict LRU copy in a router that else is ours */
        INDEX_4096,  /* llm-d's default: the first 4,096 tokens, 976 blocks of 512 */
};

enum sim_what {
        SIM_SPEED, /* it has another speed: its neighbour on the device came or went, it stalls, it goes on */
        SIM_JOIN,  /* it is there from now on, with an empty cache */
        SIM_COLD,  /* its next iteration takes `seconds` longer: compilation, weights that are read late */
};

/* What happens to a replica at a time. */
struct sim_change {
        double at; /* seconds */
        size_t replica;
        enum sim_what what;
        double speed; /* > 0 */
        double seconds;
        bool is_silent; /* the router is not notified */
};

struct sim_setup {
        const struct load *load;
        const struct pick_policy *policy;
        struct pick_tuning tuning;
        size_t n_replicas;
        double speed[SIM_REPLICAS_MAX];
        uint32_t capacity; /* most requests in flight per replica; 0: no bound but the engine's */
        uint64_t seed;     /* of the router's random numbers */
        uint32_t blocks;   /* of a replica of speed 1; others in proportion */
        enum sim_sees sees;
        enum sim_index index;
        size_t n_asleep;   /* this many of the replicas, the last ones, sleep at first */
        double wake;       /* seconds that it takes to wake one */
        bool knows_share;  /* the daemon's figure seeds the rate; else all is learned */
        double seed_error; /* factor by which the configured model rate is wrong; 0: right */
        double one_piece;  /* part of the requests that do not stream */
        const struct sim_change *changes;
        size_t n_changes;
        size_t n_routers;   /* that requests come to, each at random; 0: one */
        bool has_one_index; /* as if each knew at once what the others send where: a bound */
        bool is_shared;     /* they tell each other what heard.def lists, ten times a second ... */
        bool is_index_told; /* ... and what blocks they sent where */
};

struct sim_result {
        double ttft_mean, ttft_p50, ttft_p99; /* seconds */
        double tpot_mean, tpot_p99;           /* seconds per token, requests of at least 8 tokens */
        double goodput;                       /* part with TTFT < 2 s and TPOT < 50 ms */
        double hit;                           /* part of the prompt tokens found in a cache */
        size_t n_refused, n_held, n_woken;
        size_t n_sent[SIM_REPLICAS_MAX];
};

int sim_run(const struct sim_setup *setup, struct sim_result *ret); /* -ENOMEM */
