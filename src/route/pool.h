/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared state of the router's workers: replicas, their load, the index, settings, counters. It lies in one piece
 * of shared memory; nothing here knows nginx.
 *
 * P1. Load is counted in the row of the worker that counts, then in the total. After a worker was killed, its row is
 *     subtracted again, by the next of its number (pool_worker_new) or, since an old one that was only to finish has
 *     none, by any other (pool_worker_ended). So nothing it had in flight stays counted.
 * P2. Deciding reads without a lock. The configuration of a replica is written under the caller's lock, between two
 *     steps of `version`; a reader that sees `version` change reads again.
 * P3. A replica's slot is reused only when nothing is in flight there and the index has been swept of it.
 *
 * Threads and processes: any, but pool_set, pool_remove and pool_forget only one at a time.
 */
#pragma once

#include "route/keys/allowance.h"
#include "route/answer.h"
#include "route/routers/heard.h"
#include "route/keys/stored.h"
#include "route/index.h"
#include "route/model.h"
#include "route/routers/news.h"
#include "route/patience.h"
#include "route/pick.h"
#include "route/rate.h"

#include <stdatomic.h>
#include <sys/socket.h>

enum {
        POOL_REPLICAS = INDEX_REPLICAS,
        POOL_ALL = POOL_REPLICAS, /* the slot of counts that belong to no replica */
        POOL_MODELS = 16,
        POOL_NAME = 64,
        POOL_ADDRESS = 128,
        POOL_WORKERS = 1024,
        POOL_BUCKETS = 14,
        POOL_ANY = 0, /* a request that names no model */
        POOL_EXPECTED = 128,
        POOL_ROUTERS = 16, /* others */
        POOL_KEYS = 1024,  /* twice what the router has at once, and more: renamed ones keep their slot */
};

enum pool_load {
        POOL_INFLIGHT,
        POOL_HELD = POOL_INFLIGHT, /* of POOL_ALL, which has no other count: requests held */
        POOL_UNANSWERED,           /* of those in flight, without their first byte */
        POOL_CONTEXT,              /* tokens of prompts in flight */
        POOL_PREFILL,              /* uncached tokens of the unanswered that stream */
        POOL_WANTED,               /* held requests that wait for this replica */
        POOL_WANTED_WORK,          /* and their work, if it sleeps */
        POOL_LOADS,
};

enum pool_slot_state {
        POOL_FREE,
        POOL_USED,
        POOL_GONE, /* removed; see P3 */
};

/* A replica as the agent configured it. */
struct pool_config {
        char name[POOL_NAME], address[POOL_ADDRESS];
        struct sockaddr_storage sockaddr;
        socklen_t socklen;
        enum pick_state state;
        uint64_t rate;  /* work per second; 0: not known */
        uint32_t share; /* of a GPU, permille; 0: not known */
        uint32_t capacity, kv_tokens, kv_permille, waiting, wake_ms;
        bool hold, is_tls;
        char server_name[POOL_ADDRESS]; /* that its certificate must have */
        uint32_t n_models;
        char models[POOL_MODELS][MODEL_NAME]; /* last: most of it, and a request does not need them */
};

struct pool_replica {
        _Atomic uint32_t slot_state; /* enum pool_slot_state */
        _Atomic uint32_t version;    /* odd: being written */
        struct pool_config config;
        _Atomic uint64_t models[POOL_MODELS]; /* hashes; 0: none */
        _Atomic uint32_t state;               /* set by the agent; enum pick_state */
        _Atomic uint32_t capacity, kv_tokens, kv_permille, waiting, wake_ms, hold;
        _Atomic uint32_t kv_context; /* tokens of the prompts in flight when kv_permille was reported */
        _Atomic uint32_t failures;   /* in a row */
        _Atomic int64_t tripped;     /* down by failures: no try before this time. 0: not down */
        _Atomic uint32_t is_out;     /* tripped as one that is gone or silent: what it has in hand goes elsewhere */
        _Atomic int64_t busy_until;  /* it said that it is busy: until then ... */
        _Atomic uint32_t busy_room;  /* ... it gets no more than so many at once */
        _Atomic uint32_t is_swept;   /* the index is being swept of it */
        _Atomic int64_t load[POOL_LOADS];
        _Atomic uint64_t sent, failed, matched, prompted; /* requests; tokens */
        struct rate rate;
        struct patience patience[2];     /* of answers in one piece, of streams */
        _Atomic uint64_t heard[HEARD_N]; /* of the other routers, in sum ... */
        _Atomic int64_t heard_until;     /* ... until then */
        _Atomic uint32_t trips;          /* how often it was put out here */
        _Atomic uint32_t is_hearsay;     /* it is tripped because another router put it out */
        _Atomic uint64_t order;          /* of the last change that the API took of it (nginx/api.c); 0: none had one */
};

struct pool_histogram {
        _Atomic uint64_t count[POOL_BUCKETS + 1];
        _Atomic uint64_t sum_usec;
};

struct pool_settings {
        _Atomic uint32_t policy; /* index of PICK_POLICIES */
        _Atomic uint32_t queue, hold_ms, retry_permille, breaker_failures, breaker_ms, first_byte_ms, body_ms;
        _Atomic uint32_t is_complete;             /* all replicas are listed: a model that none serves does not exist */
        _Atomic uint64_t expected[POOL_EXPECTED]; /* hashes of models that exist without any replica; 0: none */
};

/* Retries that may be made now; see breaker.c. */
struct pool_budget {
        _Atomic int64_t level;   /* thousandths of a retry */
        _Atomic int64_t at;      /* when it was last filled by time */
        _Atomic uint64_t n, was; /* requests in this span of time, and in the one before */
        _Atomic int64_t span_at; /* when this span began */
};

enum pool_outcome {
        POOL_ANSWERED,
        POOL_LEFT,    /* by the client */
        POOL_BAD,     /* 400 */
        POOL_UNKNOWN, /* no such model */
        POOL_FULL,    /* 429 */
        POOL_LATE,    /* deadline while held */
        POOL_NOBODY,  /* no replica */
        POOL_FAILED,  /* at the replicas, after retries */
        POOL_LIMITED, /* by a limit of its key */
        POOL_OUTCOMES,
};

struct pool {
        uint64_t epoch;
        _Atomic uint64_t serial; /* grows with each change that concerns the agent */
        _Atomic uint64_t turn;   /* decisions */
        _Atomic uint64_t order_of_settings, order_of_routers, order_of_removal; /* as that of a replica */
        struct pool_budget budget;
        _Atomic uint64_t retries, holds;
        _Atomic uint64_t outcomes[POOL_OUTCOMES];
        struct pool_histogram first, token, decision, held;
        struct pool_settings settings;
        struct pool_replica replicas[POOL_REPLICAS];
        _Atomic uint32_t n_slots; /* of these, from the first, that were ever used */
        _Atomic int64_t n_held;
        _Atomic uint32_t n_routers; /* others that are heard ... */
        _Atomic int64_t routers_until;
        struct allowance keys[POOL_KEYS];
        _Atomic int32_t pids[POOL_WORKERS];                 /* whose row it is; 0: nobody's */
        _Atomic uint16_t key_rows[POOL_WORKERS][POOL_KEYS]; /* requests at once; see P1 */
        struct stored_table stored;
        _Atomic int64_t rows[POOL_WORKERS][POOL_REPLICAS + 1][POOL_LOADS];
        struct news news; /* while others are heard */
        struct index *index;
};

extern const char *const POOL_OUTCOME_NAMES[POOL_OUTCOMES];
extern const uint32_t POOL_BOUNDS_USEC[POOL_BUCKETS];

/* memory: zeroed, aligned to 64, at the same address in all processes. -ENOSPC: too small (8 MiB is enough). */
int pool_init(void *memory, size_t size, uint64_t epoch, struct pool **ret);

/* ---- replicas ---- */

int pool_find(const struct pool *pool, const char *name);                       /* slot, or -1 */
bool pool_read(const struct pool *pool, int replica, struct pool_config *ret);  /* false: not there */
bool pool_reach(const struct pool *pool, int replica, struct pool_config *ret); /* the same without its models */

/* Slot; -ENOSPC. One that is up already is not let back by that, if it is out: see pool_told. */
int pool_set(struct pool *pool, const struct pool_config *config, nsec now);
void pool_remove(struct pool *pool, int replica);
void pool_forget(struct pool *pool, int replica, nsec now); /* its cache is empty */
bool pool_tick(struct pool *pool); /* periodically, by any worker: continues sweeping. True: there is more */
bool pool_serves(const struct pool *pool, uint64_t model); /* any replica, in any state; or it is expected */
bool pool_has_one_model(const struct pool *pool);          /* no two models are known: a request need not name one */
bool pool_one_serves(const struct pool *pool, int replica, uint64_t model);

uint64_t pool_model_hash(const char *model, size_t size); /* never 0 */

/* ---- load ---- */

void pool_count(struct pool *pool, unsigned int worker, int replica, enum pool_load what, int64_t by);
int64_t pool_load(const struct pool *pool, int replica, enum pool_load what);

/* Both under one lock of the caller's, or a row that was taken over meanwhile would lose what it counts. */
void pool_worker_new(struct pool *pool, unsigned int worker, int32_t pid);   /* the former of this number has ended */
bool pool_worker_ended(struct pool *pool, unsigned int worker, int32_t pid); /* so has this one. False: it was known */

/* ---- elsewhere.c: other routers before the same replicas ---- */

void pool_say(const struct pool *pool, int replica, nsec now, struct heard *ret);    /* what is here */
void pool_hear(struct pool *pool, int replica, const struct heard *sum, nsec until); /* what is elsewhere */
uint32_t pool_routers(const struct pool *pool, nsec now);                            /* how many others are heard */
int64_t pool_elsewhere(const struct pool *pool, int replica, enum heard_what what, nsec now);
void pool_sent(struct pool *pool, int replica, const uint64_t *chain, size_t n,
               nsec now); /* into the index, and told */

/* ---- deciding ---- */

struct pool_request {
        const uint64_t *chain;
        uint32_t n_blocks, tokens;
        uint64_t model; /* pool_model_hash(), or POOL_ANY */
        uint64_t session, random;
        uint64_t tried; /* bits of slots */
        int wanted;     /* slot that it is counted as waiting for (POOL_WANTED), or -1 */
        int64_t wanted_work;
        bool is_retry; /* cannot be held: capacities do not count */
};

/* ret.replica is a slot. Nothing is counted. */
void pool_decide(struct pool *pool, const struct pool_request *request, uint32_t n_held, nsec now, struct pick *ret);

/*
 * Counts one more in flight there. False: it is at capacity, or another request is trying it after failures, or it is
 * not up any more, as it was when it was chosen.
 */
bool pool_reserve(struct pool *pool, unsigned int worker, int replica, bool is_retry, nsec now);

/* ---- breaker.c: what failed, and what may be tried again ---- */

enum pick_state pool_state(const struct pool *pool, int replica, nsec now);

/*
 * The end of a try, or its first byte. True: the replica is down now, and the agent must learn of it. ANSWER_BUSY is
 * told by pool_busy: for this long it gets no more requests at once than it has now without this one.
 */
bool pool_answered(struct pool *pool, int replica, enum answer answer, nsec now);
void pool_busy(struct pool *pool, int replica, nsec span, nsec now);

void pool_told(struct pool *pool, int replica, enum pick_state state); /* by the agent. PICK_UP lets it back */

/*
 * Another router put it out. It is out here too until it is told to be up, as after failures here, but what it has in
 * hand stays, and it does not count as put out here (trips): the news goes one way. Nothing if it is not up, or the
 * breaker is off.
 */
void pool_hear_trip(struct pool *pool, int replica, nsec now);

bool pool_is_out(const struct pool *pool, int replica); /* gone or silent: what it has in hand goes elsewhere */

/* Another replica than those tried serves the model and is up. */
bool pool_has_other(const struct pool *pool, const struct pool_request *request, nsec now);

/* What it may have in flight now; UINT32_MAX: no bound. */
uint32_t pool_capacity(const struct pool *pool, int replica, nsec now);
void pool_bound(const struct pool *pool, int replica, nsec now, struct pick_replica *row); /* a busy one is full */

bool pool_may_retry(struct pool *pool, nsec now); /* takes one from the budget */
void pool_earn(struct pool *pool, nsec now);      /* for each request */

void pool_measure(struct pool_histogram *histogram, nsec span);
