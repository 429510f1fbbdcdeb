/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which replica gets a request: pure functions of a view.
 *
 * The caller fills one row per replica that serves the model, calls pick_decide(), and acts: it sends, holds or
 * refuses the request, or has the replica woken. Nothing here knows nginx, reads a clock, allocates or blocks; the
 * simulator (bench/route) runs the same functions on virtual time.
 *
 *      struct pick_replica rows[N] = { ... };
 *      struct pick_view view = { .replicas = rows, .n_replicas = N, .prompt = tokens, .random = r,
 *                                .tuning = &PICK_TUNING_DEFAULT };
 *      struct pick verdict;
 *
 *      pick_decide(pick_policy_find("cost"), &view, &verdict);
 *      switch (verdict.action) ...
 *
 * Units: tokens are bytes of text / PICK_BYTES_PER_TOKEN (there is no tokenizer here); work is tokens weighted by
 * their position in the context (pick_work); rates are work per second; times are in seconds (double), because a
 * policy computes ratios.
 *
 * Threads: any; the view must not change during the call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        PICK_BYTES_PER_TOKEN = 4,
        PICK_REPLICAS_MAX = 256,
};

enum pick_state {
        PICK_UP,       /* takes requests */
        PICK_ASLEEP,   /* suspended by the daemon, or in the engine's own sleep: takes requests after a wake-up */
        PICK_DRAINING, /* finishes its requests; takes no new ones */
        PICK_DOWN,     /* refused, reset, unhealthy or circuit open: takes nothing */
};

struct pick_replica {
        double rate;          /* prefill work per second now: rate_now(); <= 0: not known, 1 is used */
        double backlog;       /* work sent, no answer begun: rate_backlog(); asleep: work held for it */
        double overdue;       /* seconds that a streamed answer is late: rate_look(); 0 where none is awaited */
        double slot;          /* seconds until a request ends there, so that it can take one more: rate_slot() */
        double wake;          /* PICK_ASLEEP: seconds from the wake-up order until it could begin */
        uint32_t matched;     /* tokens of this prompt in its cache, by the index; <= view.prompt */
        uint32_t inflight;    /* requests sent by us and not ended */
        uint32_t waiting;     /* of those, without their first byte; or the engine's own count, if larger */
        uint32_t queued;      /* requests that it has but has not begun, as the engine says; 0: none, or not known */
        uint32_t capacity;    /* bound of inflight; 0: no bound */
        uint32_t held;        /* tokens of context of the requests in flight (prompt and answer so far) */
        uint32_t prefill;     /* uncached prompt tokens of the streams without their first byte */
        uint32_t kv_permille; /* of its KV cache in use: pick_kv_now(), or estimated */
        uint32_t kv_total;    /* tokens its KV cache holds; 0: not known */
        uint8_t state;        /* enum pick_state */
        uint8_t tried;        /* this request failed there: not again, unless there is no other */
};

/* Factors of the formula (cost.c). The simulator ran with the defaults. */
struct pick_tuning {
        double wait;         /* of the waiting time: the backlog that the router sees is late */
        double overdue;      /* of the time that an answer is late */
        double fresh;        /* of the work that no candidate has cached */
        double again;        /* of the work that another candidate has cached ... */
        double pressure;     /* ... and for each request in flight, in the mean over the candidates */
        double interference; /* of any work, for each request in flight there, which it delays */
        double company;      /* tokens of the fastest candidate, for each of the first requests in flight there */
        double queued;       /* of the time between ends, for each request that the engine has not begun */
        double kv;           /* of the time between ends, where the KV cache is full; see cost.c */
        double attention;    /* context, in tokens, at which a prefill token costs twice; 0: context is free */
        uint32_t least;      /* a prompt costs at least this many tokens */
};

extern const struct pick_tuning PICK_TUNING_DEFAULT;

struct pick_view {
        const struct pick_replica *replicas;
        size_t n_replicas;
        const struct pick_tuning *tuning;
        uint64_t random; /* new for each call: ties, power of two */
        uint64_t turn;   /* counts decisions: round robin */
        uint64_t prefix; /* hash of the first blocks of the prompt (or of the session key): prefix hash */
        uint32_t prompt; /* tokens of the prompt */
        uint32_t n_held; /* requests held in all, without this one */
};

enum pick_action {
        PICK_SEND,   /* to `replica` */
        PICK_HOLD,   /* `replica` is at capacity and still the best (UINT32_MAX: all are at capacity, and the policy
                        does not price that): hold, decide anew when a slot is free. Other held requests may go first */
        PICK_WAKE,   /* `replica` sleeps and is still the best: have it woken, hold, decide anew */
        PICK_REFUSE, /* no replica serves this now, asleep or awake */
};

/* The reason, for the request log and `sublet route explain`. */
enum pick_reason {
        PICK_BECAUSE_ONLY,   /* one candidate */
        PICK_BECAUSE_CACHE,  /* the most of the prompt is cached there */
        PICK_BECAUSE_LOAD,   /* another has more of the prompt cached, but is busier or slower */
        PICK_BECAUSE_RATE,   /* nothing cached anywhere: first to answer */
        PICK_BECAUSE_POLICY, /* round robin, hash: the policy is blind */
        PICK_BECAUSE_FULL,   /* hold: worth waiting for a slot */
        PICK_BECAUSE_ASLEEP, /* wake: asleep, and still the cheapest or the only one */
        PICK_BECAUSE_NONE,   /* refuse: none up */
};

struct pick {
        enum pick_action action;
        enum pick_reason reason;
        uint32_t replica; /* index into view.replicas, or UINT32_MAX: none */
        uint32_t matched; /* tokens cached there */
        double wait;      /* seconds expected before its prefill begins, once sent */
        double prefill;   /* seconds expected of its prefill */
        double work;      /* to charge the replica with: rate_send() */
};

struct choice; /* route/choose.h */

/* A policy is a row. All obey state, capacity and tried alike: they differ in which candidate they prefer. */
struct pick_policy {
        const char *name;
        bool is_patient; /* prices replicas that sleep or are at capacity, and may prefer to wait for one */
        bool is_blind;   /* considers neither cache nor load */
        uint32_t (*choose)(const struct choice *choice);
};

/*
 * Ends with a NULL name; the first is the default. A program that defines this table itself offers other
 * policies: bench/route/policies.c adds the formulas of other routers.
 */
extern const struct pick_policy PICK_POLICIES[];

const struct pick_policy *pick_policy_find(const char *name); /* NULL: no such policy */

void pick_decide(const struct pick_policy *policy, const struct pick_view *view, struct pick *ret);

const char *pick_state_name(enum pick_state state);    /* "up", "asleep", "draining", "down" */
const char *pick_reason_name(enum pick_reason reason); /* "cache", "load", ... */

/*
 * The KV cache in use now, in thousandths: as the engine reported it, when requests with held_then tokens of context
 * were in flight there; now it is `held`. Those that came since will take as much as the others did.
 */
static inline uint32_t pick_kv_now(uint32_t reported, uint32_t held, uint32_t held_then)
{
        uint64_t permille = held_then ? (uint64_t)reported * held / held_then : reported;

        return permille < 1000 ? (uint32_t)permille : 1000;
}

/*
 * Work of prefilling the tokens [from, to) of a prompt: each costs 1 + position / attention.
 * attention 0: to - from. Never negative.
 */
static inline double pick_work(uint32_t from, uint32_t to, double attention)
{
        double n = to > from ? (double)(to - from) : 0;

        return attention > 0 ? n + n * ((double)from + n / 2) / attention : n;
}
