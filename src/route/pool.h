/*
 * What all workers of the router know together: replicas, their load, the index, settings, counters. It lies in
 * one piece of shared memory; nothing here knows nginx.
 *
 * P1. Load is counted in the row of the worker that counts, then in the total. A worker that was killed is
 *     repaired by taking its row back (pool_worker_new), so nothing it had in flight stays counted.
 * P2. Deciding reads without a lock. What describes a replica (name, address, models) is written under the
 *     caller's lock, between two steps of `version`; a reader who sees it change looks again.
 * P3. A replica's place is given to another only when nothing is in flight there and the index has forgotten it.
 *
 * Threads and processes: any, but pool_set, pool_remove and pool_forget: one at a time.
 */
#pragma once

#include "route/index.h"
#include "route/pick.h"
#include "route/rate.h"

#include <stdatomic.h>
#include <sys/socket.h>

enum {
        POOL_REPLICAS = INDEX_REPLICAS,
        POOL_ALL = POOL_REPLICAS, /* the place of counts that are no replica's */
        POOL_MODELS = 16,
        POOL_NAME = 64,
        POOL_MODEL = 128,
        POOL_ADDRESS = 128,
        POOL_WORKERS = 1024,
        POOL_BUCKETS = 14,
        POOL_ANY = 0, /* a request that names no model */
};

enum pool_load {
        POOL_INFLIGHT,    /* POOL_ALL: requests held */
        POOL_UNANSWERED,  /* of those in flight without their first byte */
        POOL_CONTEXT,     /* tokens of prompts in flight */
        POOL_PREFILL,     /* uncached tokens of the unanswered */
        POOL_WANTED,      /* requests held that wait for this one */
        POOL_WANTED_WORK, /* and their work */
        POOL_LOADS,
};

enum pool_slot_state {
        POOL_FREE,
        POOL_USED,
        POOL_GONE, /* removed; see P3 */
};

/* What the agent says of a replica. */
struct pool_config {
        char name[POOL_NAME], address[POOL_ADDRESS];
        struct sockaddr_storage sockaddr;
        socklen_t socklen;
        uint32_t n_models;
        char models[POOL_MODELS][POOL_MODEL];
        enum pick_state state;
        uint64_t rate;
        uint32_t capacity, kv_tokens, kv_permille, waiting, wake_ms;
        bool hold;
};

struct pool_replica {
        _Atomic uint32_t slot_state; /* enum pool_slot_state */
        _Atomic uint32_t version;    /* odd: being written */
        struct pool_config config;
        _Atomic uint64_t models[POOL_MODELS]; /* hashes; 0: none */
        _Atomic uint32_t state;               /* as the agent says; enum pick_state */
        _Atomic uint32_t capacity, kv_tokens, kv_permille, waiting, wake_ms, hold;
        _Atomic uint32_t failures; /* in a row */
        _Atomic int64_t tripped;   /* down by failures; until then nobody tries. 0: not */
        _Atomic uint32_t is_swept; /* the index is still to forget it */
        _Atomic int64_t load[POOL_LOADS];
        _Atomic uint64_t sent, failed, matched, prompted; /* requests; tokens */
        struct rate rate;
};

struct pool_histogram {
        _Atomic uint64_t count[POOL_BUCKETS + 1];
        _Atomic uint64_t sum_usec;
};

struct pool_settings {
        _Atomic uint32_t policy; /* index of PICK_POLICIES */
        _Atomic uint32_t queue, hold_ms, retry_permille, breaker_failures, breaker_ms;
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
        POOL_OUTCOMES,
};

struct pool {
        uint64_t epoch;
        _Atomic uint64_t serial; /* grows when the agent must look */
        _Atomic uint64_t turn;   /* decisions */
        _Atomic int64_t budget;  /* of retries, in thousandths */
        _Atomic uint64_t retries, holds;
        _Atomic uint64_t outcomes[POOL_OUTCOMES];
        struct pool_histogram first, token, decision, held;
        struct pool_settings settings;
        struct pool_replica replicas[POOL_REPLICAS];
        _Atomic int64_t n_held;
        _Atomic int64_t rows[POOL_WORKERS][POOL_REPLICAS + 1][POOL_LOADS];
        struct index *index;
};

extern const char *const POOL_OUTCOME_NAMES[POOL_OUTCOMES];
extern const uint32_t POOL_BOUNDS_USEC[POOL_BUCKETS];

/* memory: zeroed, aligned to 64, at the same address in all processes. -ENOSPC: too small (8 MiB will do). */
int pool_init(void *memory, size_t size, uint64_t epoch, struct pool **ret);

/* ---- replicas ---- */

int pool_find(const struct pool *pool, const char *name);                      /* place, or -1 */
bool pool_read(const struct pool *pool, int replica, struct pool_config *ret); /* false: not there */
int pool_set(struct pool *pool, const struct pool_config *config, nsec now);   /* place; -ENOSPC */
void pool_remove(struct pool *pool, int replica);
void pool_forget(struct pool *pool, int replica, nsec now); /* its cache is empty */
void pool_tick(struct pool *pool);                          /* now and then, by any worker: forgetting goes on */
bool pool_serves(const struct pool *pool, uint64_t model);  /* anybody, in whatever state */

uint64_t pool_model_hash(const char *model, size_t size); /* never 0 */

/* ---- load ---- */

void pool_count(struct pool *pool, unsigned int worker, int replica, enum pool_load what, int64_t by);
int64_t pool_load(const struct pool *pool, int replica, enum pool_load what);
void pool_worker_new(struct pool *pool, unsigned int worker); /* whoever had this number is dead */

/* ---- deciding ---- */

struct pool_request {
        const uint64_t *chain;
        uint32_t n_blocks, tokens;
        uint64_t model; /* pool_model_hash(), or POOL_ANY */
        uint64_t session, random;
        uint64_t tried; /* places */
        int wanted;     /* place that it is counted as waiting for (POOL_WANTED), or -1 ... */
        int64_t wanted_work;
        bool is_retry; /* it cannot be held: capacities do not count */
};

/* ret.replica is a place. Nothing is counted. */
void pool_decide(struct pool *pool, const struct pool_request *request, uint32_t n_held, nsec now, struct pick *ret);

/* One more in flight there, unless it is at capacity or is being tried by another (false). */
bool pool_reserve(struct pool *pool, unsigned int worker, int replica, bool is_retry, nsec now);

/* How a try ended. True: the agent must know (it is down now). */
bool pool_failed(struct pool *pool, int replica, bool is_refused, nsec now);
void pool_worked(struct pool *pool, int replica);
bool pool_may_retry(struct pool *pool); /* takes one from the budget */
void pool_earn(struct pool *pool);      /* for each request */
enum pick_state pool_state(const struct pool *pool, int replica, nsec now);

void pool_measure(struct pool_histogram *histogram, nsec span);
