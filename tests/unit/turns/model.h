/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device, its tenants and the scheduler on a virtual clock: a policy's orders are carried out at the cost and with
 * the delays that were measured (docs/time.md), and the results are curves with a point per millisecond.
 *
 *      model_init(&model, &(struct model_options){ .seed = 7, .policy = TURNS_POLICY_TURNS, .length = 3 * SEC });
 *      a = model_add(&model, (struct model_tenant){ .kind = DEEP, .share = 700 });
 *      model_run(&model);
 *      model_had(&model, a, 1000, 1000)        its time on the device in the second second
 *
 * Mates of a team are on the device together. Two or more that work do BESIDE (model.c) of what one alone does, in
 * equal parts; the team's time is counted as its first mate's.
 */
#pragma once

#include "turns/teams.h"
#include "turns/turns.h"
#include "turns/waits.h"

#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC
#define SEC NSEC_PER_SEC
#define NEVER INT64_MAX

enum {
        MODEL_TENANTS = 256,
        MODEL_CONTEXTS = 512,
        MODEL_RECORDS = 8192,
        MODEL_QUEUE = 512,
        MODEL_TEAMS = 8,
};

enum model_kind {
        IDLE,      /* nothing, ever */
        DEEP,      /* a queue that is never empty; so is a kernel that never ends, but for its launches */
        ENDLESS,   /* one launch, that never ends */
        SYNC,      /* kernels of `work`, each launched `gap` after the end of the one before */
        PERIODIC,  /* `work` every `gap`, whether the work before is done or not */
        AT_RANDOM, /* `work` every `gap` in the mean; what waits is done together, counted from the first */
        SERVER,    /* the same, but one by one, as a service does that launches and waits: from its arrival */
        LIAR,      /* writes GP_PUT every `gap`, and rings no doorbell; each time `work` is real. Its rings hold work */
        ON_OFF,    /* about `work` with a deep queue, then nothing for about `gap` */
};

struct model_tenant {
        enum model_kind kind;
        permille share, cap; /* a cap of 0 means none here */
        enum turns_class class;
        nsec goal;
        nsec work, gap;
        nsec begins_at, ends_at; /* 0: from the beginning, to the end */
        int n_contexts;          /* processes; 0: one */
        int team;                /* from 1: it works side by side with the others of it; 0: none */
        bool is_graph;           /* SYNC: the ring entry is taken when all but a tenth is done */

        /* results */
        nsec done;                    /* work */
        nsec n_requests, latency_sum; /* of SYNC, PERIODIC, AT_RANDOM and SERVER: launch to end */
        nsec *latencies;
        size_t n_room;
        struct waits waits; /* of one with a goal: what the scheduler makes of it */
        nsec n_late;        /* of those that waited longer than the goal, by the model's own count */
        int32_t *had;       /* us on the device in each millisecond */
        int32_t *wanted;    /* us with work, in each millisecond */

        /* state */
        nsec metered, resident_since; /* as of the meter; 0: not resident */
        int n_resident;
        nsec started_at, stopped_at, launched_at;
        nsec watched_at, seen_launched_at; /* at a watch */
        bool seen_pending;
        uint64_t n_starts;
        bool is_disabled;
        nsec slice;
};

struct model_context {
        int tenant;
        bool is_on;
        nsec left;    /* NEVER: endless; 0: no work */
        nsec next;    /* when something is launched */
        nsec arrives; /* SERVER: when the next request does */
        nsec due[MODEL_QUEUE];
        unsigned int first_due, n_due; /* SERVER: requests that wait, and the one that is served */
        nsec launched;                 /* when the present work was */
        nsec ramp;                     /* resident, but not at work yet */
        bool is_whole;                 /* it had drained when it left the device */
        bool is_leaving;               /* disabled gently: until it drains, or its slice ends */
        bool is_taken;                 /* the device has begun the latest launch */
};

/* What the meter has of a team: one context, whoever of its mates works. */
struct model_team {
        nsec metered, resident_since;
        bool is_resident;
        nsec started_at, stopped_at;
        uint64_t n_starts;
};

struct model_record {
        nsec at;
        int context;
        bool is_on;
};

struct model_options {
        uint64_t seed;
        enum turns_policy policy;
        nsec period, length;
        nsec meter_delay;    /* how far the records are behind; 0: 0.3 ms */
        bool has_signal;     /* launches can be seen */
        nsec watch;          /* so often; 0: at once */
        bool is_rough;       /* calls take up to a half longer, and one in fifty some milliseconds; calls out of turn */
        bool disables_first; /* the next is enabled only after the one before is disabled */
};

struct model {
        struct model_options options;
        uint64_t random;
        nsec now;
        struct model_tenant tenants[MODEL_TENANTS];
        int n_tenants;
        struct model_context contexts[MODEL_CONTEXTS];
        int n_contexts;

        /* the device */
        int current, incoming; /* -1: none */
        nsec watch_at;         /* when launches are seen next */
        nsec switch_until, slice_end;
        int n_active;
        nsec n_switches;

        /* the meter */
        struct model_record records[MODEL_RECORDS];
        uint64_t n_records, n_read;

        struct model_team teams[MODEL_TEAMS + 1];
        struct teams folded;

        struct turns *turns;
        nsec n_calls, n_decisions; /* on and off; turns_next */
        nsec slices_set;
};

void model_init(struct model *model, const struct model_options *options);
int model_add(struct model *model, struct model_tenant tenant);
void model_run(struct model *model);
void model_done(struct model *model);

uint32_t model_below(struct model *model, uint32_t bound); /* random */

/* us on the device; from, length in milliseconds. */
nsec model_had(const struct model *model, int tenant, int from, int length);
nsec model_wanted(const struct model *model, int tenant, int from, int length);
nsec model_most_in_a_second(const struct model *model, int tenant);       /* over any, from the beginning */
nsec model_latency(const struct model *model, int tenant, int percent);   /* the percentile */
nsec model_longest_wait(const struct model *model, int tenant, int from); /* ms with work and without the device */
