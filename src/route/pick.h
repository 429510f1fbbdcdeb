/*
 * Which replica gets a request: pure functions of a view.
 *
 * The caller fills one row per replica that serves the model, calls pick(), and acts: dispatch, hold,
 * ask for a wake-up, or refuse. Nothing here knows nginx, asks the time, allocates or blocks; the
 * simulator runs the same functions on virtual time.
 *
 *      struct pick_replica rows[N] = { ... };
 *      struct pick_view view = { .replicas = rows, .n_replicas = N, .prompt = tokens, .random = r,
 *                                .tuning = &PICK_TUNING_DEFAULT };
 *      struct pick verdict;
 *
 *      pick_decide(pick_policy_find("cost"), &view, &verdict);
 *      switch (verdict.action) ...
 *
 * Units: tokens are bytes of text / PICK_BYTES_PER_TOKEN (nobody here has a tokenizer); work is tokens
 * weighted by how far into the context they stand (pick_work), and rates are work per second. Spans
 * are in seconds (double), because a policy computes ratios.
 *
 * Threads: any; the view is the caller's for the call.
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
        PICK_ASLEEP,   /* suspended by the daemon, or by the engine's own sleep: takes them after a wake-up */
        PICK_DRAINING, /* finishes what it has; takes nothing new */
        PICK_DOWN,     /* refused, reset, unhealthy or circuit open: takes nothing */
};

struct pick_replica {
        double rate;          /* prefill work per second as it is now: rate_now(); <= 0: not known, 1 is taken */
        double backlog;       /* work sent and not yet begun to be answered: rate_backlog(); asleep: work held for it */
        double slot;          /* at capacity: seconds until it has a place for one more: rate_slot() */
        double wake;          /* PICK_ASLEEP: seconds until it could begin, after being asked */
        uint32_t matched;     /* tokens of this prompt that the index says it has; <= view.prompt */
        uint32_t inflight;    /* requests sent by us and not ended */
        uint32_t waiting;     /* of those, without their first byte; or what the engine says waits, if it is more */
        uint32_t capacity;    /* bound of inflight; 0: no bound */
        uint32_t held;        /* tokens of context of the requests in flight (prompt and answer so far) */
        uint32_t prefill;     /* uncached prompt tokens of the requests without their first byte */
        uint32_t kv_permille; /* of its KV cache in use, as the engine says or as estimated */
        uint32_t kv_total;    /* tokens its KV cache holds; 0: not known */
        uint8_t state;        /* enum pick_state */
        uint8_t tried;        /* this request failed there already: not again, unless nothing else is left */
};

/* What an operator may set. Defaults are what the simulator was run with. */
struct pick_tuning {
        double wait;         /* factor of the waiting time: what we see of a backlog is late. 1.25 */
        double interference; /* w: how much a request in flight there is delayed by our prefill. 0.3 */
        double attention;    /* context, in tokens, at which a prefill token costs twice; 0: context is free */
        uint32_t least;      /* a prompt costs at least as many tokens. 64 */
};

extern const struct pick_tuning PICK_TUNING_DEFAULT;

struct pick_view {
        const struct pick_replica *replicas;
        size_t n_replicas;
        const struct pick_tuning *tuning;
        uint64_t random; /* fresh for each call: ties, power of two */
        uint64_t turn;   /* counts decisions: round robin */
        uint64_t prefix; /* hash of the first blocks of the prompt (or of the session key): prefix hash */
        uint32_t prompt; /* tokens of the prompt */
        uint32_t n_held; /* requests that are held in all, this one not counted */
};

enum pick_action {
        PICK_SEND,   /* to `replica` */
        PICK_HOLD,   /* `replica` is at capacity and the best even so (UINT32_MAX: all are at capacity, and the policy
                        does not price that): decide anew when a place is free. Others that are held may go first */
        PICK_WAKE,   /* `replica` sleeps and is the best even so: ask for it, hold, decide anew */
        PICK_REFUSE, /* nobody serves this now, asleep or awake */
};

/* Why, for the request log and `sublet route explain`. */
enum pick_reason {
        PICK_BECAUSE_ONLY,   /* one candidate */
        PICK_BECAUSE_CACHE,  /* the most of the prompt is cached there */
        PICK_BECAUSE_LOAD,   /* another has more of it cached, but is busier or slower */
        PICK_BECAUSE_RATE,   /* nothing cached anywhere: first to answer */
        PICK_BECAUSE_POLICY, /* round robin, hash: the policy looks at neither */
        PICK_BECAUSE_FULL,   /* hold: worth waiting for a place */
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
        double work;      /* what to charge the replica with: rate_send() */
};

struct choice; /* route/choose.h */

/* A policy is a row. All obey state, capacity and tried alike: they differ in which candidate they prefer. */
struct pick_policy {
        const char *name;
        bool is_patient; /* prices replicas that sleep or are at capacity, and may prefer to wait for one */
        bool is_blind;   /* looks at neither cache nor load */
        uint32_t (*choose)(const struct choice *choice);
};

/*
 * Ends with a NULL name; the first is the default. A program that defines this table itself offers other
 * policies: bench/route/policies.c adds the formulas of other routers.
 */
extern const struct pick_policy PICK_POLICIES[];

const struct pick_policy *pick_policy_find(const char *name); /* NULL: no such policy */

void pick_decide(const struct pick_policy *policy, const struct pick_view *view, struct pick *ret);

const char *pick_reason_name(enum pick_reason reason); /* "cache", "load", ... */

/*
 * Work of prefilling the tokens [from, to) of a prompt: each costs 1 + position / attention.
 * attention 0: to - from. Never negative.
 */
double pick_work(uint32_t from, uint32_t to, double attention);
