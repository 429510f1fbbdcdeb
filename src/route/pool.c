/* SPDX-License-Identifier: Apache-2.0 */
#include "route/pool.h"

#include "base/cleanup.h"
#include "route/hash.h"
#include "route/prefix.h"

#include <errno.h>
#include <string.h>

const char *const POOL_OUTCOME_NAMES[POOL_OUTCOMES] = { "answered",      "left",       "bad_request",
                                                        "unknown_model", "queue_full", "deadline",
                                                        "no_replica",    "failed",     "limited" };

const uint32_t POOL_BOUNDS_USEC[POOL_BUCKETS] = { 10,     50,     200,    1000,    5000,    20000,    50000,
                                                  100000, 250000, 500000, 1000000, 2500000, 10000000, 60000000 };

enum {
        SWEEP = 4096,
};

/* Three parts of the memory: this struct, slots (9/20 of the rest at most), what replicas have. */
int pool_init(void *memory, size_t size, uint64_t epoch, struct pool **ret)
{
        size_t own = (sizeof(struct pool) + 63) / 64 * 64, n_slots = 1024, n_blocks;
        struct pool *pool = memory;

        if (size < own + index_size(n_slots, 64))
                return -ENOSPC;
        while (index_size(n_slots * 2, 0) <= (size - own) / 20 * 9)
                n_slots *= 2;
        n_blocks = index_room(n_slots, size - own);
        pool->epoch = epoch;
        pool->serial = 1;
        pool->settings.queue = 1000;
        pool->settings.hold_ms = 30000;
        pool->settings.retry_permille = 100;
        pool->settings.breaker_failures = 3;
        pool->settings.breaker_ms = 5000;
        pool->settings.first_byte_ms = 600000;
        pool->settings.body_ms = 300000;
        pool->index = index_init((char *)memory + own, n_slots, n_blocks);
        *ret = pool;
        return 0;
}

/* ---- replicas --------------------------------------------------------------------------------------- */

static bool read_config(const struct pool *pool, int replica, struct pool_config *ret, size_t size)
{
        const struct pool_replica *r = &pool->replicas[replica];

        for (int i = 0; i < 1000; i++) {
                uint32_t version = atomic_load(&r->version);

                memcpy(ret, &r->config, size);
                atomic_thread_fence(memory_order_acquire);
                if (version % 2 == 0 && version == atomic_load(&r->version))
                        return atomic_load(&r->slot_state) == POOL_USED;
        }
        return false; /* its writer was killed; the agent writes again */
}

bool pool_read(const struct pool *pool, int replica, struct pool_config *ret)
{
        return read_config(pool, replica, ret, sizeof(*ret));
}

bool pool_reach(const struct pool *pool, int replica, struct pool_config *ret)
{
        return read_config(pool, replica, ret, offsetof(struct pool_config, n_models));
}

int pool_find(const struct pool *pool, const char *name)
{
        for (int i = 0; i < POOL_REPLICAS; i++)
                if (pool->replicas[i].slot_state == POOL_USED && strcmp(pool->replicas[i].config.name, name) == 0)
                        return i;
        return -1;
}

static int find_free(struct pool *pool)
{
        for (int i = 0; i < POOL_REPLICAS; i++) {
                struct pool_replica *r = &pool->replicas[i];

                if (r->slot_state == POOL_FREE ||
                    (r->slot_state == POOL_GONE && !r->is_swept && !r->load[POOL_INFLIGHT] && !r->load[POOL_WANTED])) {
                        memset(&r->rate, 0, sizeof(r->rate));
                        memset(r->patience, 0, sizeof(r->patience));
                        r->failures = r->is_out = 0;
                        r->tripped = r->busy_until = r->heard_until = 0;
                        r->trips = r->is_hearsay = 0;
                        r->order = 0;
                        r->sent = r->failed = r->matched = r->prompted = 0;
                        return i;
                }
        }
        return -ENOSPC;
}

uint64_t pool_model_hash(const char *model, size_t size)
{
        return XXH3_64bits(model, size) | 1;
}

static void set_models(struct pool_replica *r, const struct pool_config *config)
{
        for (uint32_t i = 0; i < POOL_MODELS; i++)
                atomic_store(&r->models[i],
                             i < config->n_models ? pool_model_hash(config->models[i], strlen(config->models[i])) : 0);
}

/* Blocks of text for so many tokens, with the small first ones. */
static size_t blocks_of(uint32_t tokens)
{
        return (size_t)tokens / (1024 / PICK_BYTES_PER_TOKEN) + 8;
}

static uint32_t clamp(int64_t n)
{
        return n < 0 ? 0 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* What it has there of other routers; mostly there are none. */
static int64_t elsewhere(const struct pool *pool, int i, enum heard_what what, nsec now)
{
        nsec until = atomic_load_explicit(&pool->replicas[i].heard_until, memory_order_relaxed);

        return now < until ? pool_elsewhere(pool, i, what, now) : 0;
}

/* Of this router's requests and the others'. */
static uint32_t load_of(const struct pool *pool, int i, enum heard_what what, nsec now)
{
        return clamp(pool->replicas[i].load[what] + elsewhere(pool, i, what, now));
}

static void set_numbers(struct pool *pool, int i, const struct pool_config *config, nsec now)
{
        struct pool_replica *r = &pool->replicas[i];

        r->capacity = config->capacity;
        r->kv_permille = config->kv_permille;
        r->kv_context = load_of(pool, i, HEARD_CONTEXT, now);
        r->waiting = config->waiting;
        r->wake_ms = config->wake_ms;
        r->hold = config->hold;
        if (r->kv_tokens != config->kv_tokens || r->slot_state != POOL_USED)
                index_resize(pool->index, (unsigned int)i, config->kv_tokens ? blocks_of(config->kv_tokens) : SIZE_MAX);
        r->kv_tokens = config->kv_tokens;
        rate_seed(&r->rate, config->rate);
        rate_share(&r->rate, config->share);
}

/* The lowest free slot is taken: what looks at all of them need not look at all there could be. */
static void count_slots(struct pool *pool, uint32_t least)
{
        uint32_t n = pool->n_slots;

        while (n < least && !atomic_compare_exchange_weak(&pool->n_slots, &n, least))
                ;
}

int pool_set(struct pool *pool, const struct pool_config *config, nsec now)
{
        int i = pool_find(pool, config->name);
        struct pool_replica *r;

        if (i < 0)
                i = find_free(pool);
        if (i < 0)
                return i;
        r = &pool->replicas[i];
        atomic_store(&r->version, (r->version | 1u));
        memcpy(&r->config, config, sizeof(*config));
        atomic_store(&r->version, r->version + 1);
        set_models(r, config);
        set_numbers(pool, i, config, now);
        if (config->state == PICK_UP && r->state != PICK_UP)
                rate_reset(&r->rate, now);
        if (r->slot_state != POOL_USED || config->state != (enum pick_state)r->state)
                pool_told(pool, i, config->state);
        count_slots(pool, (uint32_t)i + 1);
        atomic_store(&r->slot_state, POOL_USED);
        atomic_fetch_add(&pool->serial, 1);
        return i;
}

void pool_remove(struct pool *pool, int replica)
{
        struct pool_replica *r = &pool->replicas[replica];

        atomic_store(&r->is_swept, 1);
        atomic_store(&r->slot_state, POOL_GONE);
        atomic_fetch_add(&pool->serial, 1);
}

void pool_forget(struct pool *pool, int replica, nsec now)
{
        atomic_store(&pool->replicas[replica].is_swept, 1);
        rate_reset(&pool->replicas[replica].rate, now);
}

bool pool_tick(struct pool *pool)
{
        bool has_more = false;

        for (int i = 0; i < POOL_REPLICAS; i++)
                if (pool->replicas[i].is_swept && index_sweep(pool->index, (unsigned int)i, SWEEP))
                        atomic_store(&pool->replicas[i].is_swept, 0);
                else
                        has_more |= pool->replicas[i].is_swept;
        return has_more;
}

static bool serves(const struct pool_replica *r, uint64_t model)
{
        uint64_t first = atomic_load(&r->models[0]);

        if (!first || first == model || model == POOL_ANY)
                return true;
        for (int i = 1; i < POOL_MODELS && r->models[i]; i++)
                if (r->models[i] == model)
                        return true;
        return false;
}

bool pool_one_serves(const struct pool *pool, int replica, uint64_t model)
{
        return pool->replicas[replica].slot_state == POOL_USED && serves(&pool->replicas[replica], model);
}

bool pool_serves(const struct pool *pool, uint64_t model)
{
        for (int i = 0; i < (int)pool->n_slots; i++)
                if (pool_one_serves(pool, i, model))
                        return true;
        for (int i = 0; i < POOL_EXPECTED && pool->settings.expected[i]; i++)
                if (pool->settings.expected[i] == model)
                        return true;
        return false;
}

bool pool_has_one_model(const struct pool *pool)
{
        uint64_t first = 0;

        for (int i = 0; i < POOL_REPLICAS; i++) {
                const struct pool_replica *r = &pool->replicas[i];

                if (r->slot_state != POOL_USED || !r->models[0])
                        continue;
                if (r->models[1] || (first && first != r->models[0]))
                        return false;
                first = r->models[0];
        }
        return true;
}

/* ---- load ------------------------------------------------------------------------------------------- */

void pool_count(struct pool *pool, unsigned int worker, int replica, enum pool_load what, int64_t by)
{
        atomic_fetch_add(&pool->rows[worker % POOL_WORKERS][replica][what], by);
        if (replica == POOL_ALL)
                atomic_fetch_add(&pool->n_held, by);
        else
                atomic_fetch_add(&pool->replicas[replica].load[what], by);
}

int64_t pool_load(const struct pool *pool, int replica, enum pool_load what)
{
        int64_t n = replica == POOL_ALL ? pool->n_held : pool->replicas[replica].load[what];

        return n > 0 ? n : 0;
}

static void take_back(struct pool *pool, unsigned int worker)
{
        for (int i = 0; i <= POOL_REPLICAS; i++)
                for (int what = 0; what < POOL_LOADS; what++) {
                        int64_t n = atomic_exchange(&pool->rows[worker % POOL_WORKERS][i][what], 0);

                        if (n && i == POOL_ALL)
                                atomic_fetch_add(&pool->n_held, what == POOL_HELD ? -n : 0);
                        else if (n)
                                atomic_fetch_add(&pool->replicas[i].load[what], -n);
                }
        for (int i = 0; i < POOL_KEYS; i++) {
                uint16_t n = atomic_exchange(&pool->key_rows[worker % POOL_WORKERS][i], 0);

                if (n)
                        atomic_fetch_sub(&pool->keys[i].at_once, n);
        }
}

void pool_worker_new(struct pool *pool, unsigned int worker, int32_t pid)
{
        take_back(pool, worker);
        atomic_store(&pool->pids[worker % POOL_WORKERS], pid);
}

bool pool_worker_ended(struct pool *pool, unsigned int worker, int32_t pid)
{
        if (atomic_load(&pool->pids[worker % POOL_WORKERS]) != pid)
                return false;
        take_back(pool, worker);
        atomic_store(&pool->pids[worker % POOL_WORKERS], 0);
        return true;
}

/* ---- deciding --------------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
        return a > b ? a : b;
}

static void fill_row(const struct pool *pool, int i, const struct pool_request *q, uint32_t blocks,
                     const struct rate_peers *peers, nsec now, struct pick_replica *ret)
{
        const struct pool_replica *r = &pool->replicas[i];
        uint32_t load[HEARD_PREFILL + 1];
        int own = q->wanted == i;
        uint64_t matched = prefix_bytes(blocks) / PICK_BYTES_PER_TOKEN;
        struct rate_view view;

        for (int what = HEARD_INFLIGHT; what <= HEARD_PREFILL; what++)
                load[what] = load_of(pool, i, (enum heard_what)what, now);
        rate_look(&r->rate, peers, now, &view);
        *ret = (struct pick_replica){
                .rate = view.per_second,
                .backlog = view.backlog + (double)elsewhere(pool, i, HEARD_BACKLOG, now) +
                           clamp(r->load[POOL_WANTED_WORK] - own * q->wanted_work),
                .overdue = r->load[POOL_PREFILL] > 0 ? view.overdue : 0,
                .slot = rate_slot(&r->rate, clamp(r->load[POOL_WANTED] - own)),
                .wake = r->wake_ms / 1e3,
                .matched = matched < q->tokens ? (uint32_t)matched : q->tokens,
                .inflight = load[HEARD_INFLIGHT],
                .waiting = larger(load[HEARD_UNANSWERED], r->waiting),
                .queued = r->waiting,
                .capacity = q->is_retry ? 0 : r->capacity,
                .held = load[HEARD_CONTEXT],
                .prefill = load[HEARD_PREFILL],
                .kv_permille = pick_kv_now(r->kv_permille, load[HEARD_CONTEXT], r->kv_context),
                .kv_total = r->kv_tokens,
                .state = (uint8_t)pool_state(pool, i, now),
                .tried = q->tried >> i & 1,
        };
        if (!r->kv_permille && r->kv_tokens) /* not reported: estimated */
                ret->kv_permille = (uint32_t)((uint64_t)ret->held * 1000 / r->kv_tokens);
        pool_bound(pool, i, now, ret);
}

static uint64_t candidates(const struct pool *pool, uint64_t model, uint64_t *ret_indexed)
{
        uint64_t mask = 0;

        *ret_indexed = 0;
        for (int i = 0; i < (int)pool->n_slots; i++) {
                const struct pool_replica *r = &pool->replicas[i];

                if (!pool_one_serves(pool, i, model))
                        continue;
                mask |= 1ull << i;
                *ret_indexed |= (uint64_t)!r->is_swept << i;
        }
        return mask;
}

static uint64_t hash_for_policy(const struct pool_request *q)
{
        if (q->session)
                return q->session;
        return q->n_blocks ? q->chain[q->n_blocks < 4 ? q->n_blocks - 1 : 3] : q->random;
}

void pool_decide(struct pool *pool, const struct pool_request *q, uint32_t n_held, nsec now, struct pick *ret)
{
        uint64_t indexed, mask = candidates(pool, q->model, &indexed);
        uint32_t blocks[INDEX_REPLICAS] = { 0 };
        struct pick_replica rows[POOL_REPLICAS];
        struct rate_peers peers = { 0 };
        uint8_t slots[POOL_REPLICAS];
        struct pick_view view = { .replicas = rows,
                                  .tuning = &PICK_TUNING_DEFAULT,
                                  .random = q->random,
                                  .turn = atomic_fetch_add(&pool->turn, 1),
                                  .prefix = hash_for_policy(q),
                                  .prompt = q->tokens,
                                  .n_held = n_held };

        for (uint64_t left = mask; left; left &= left - 1)
                rate_add(&peers, &pool->replicas[__builtin_ctzll(left)].rate, now);
        rate_added(&peers);
        (void)index_match(pool->index, q->chain, q->n_blocks, indexed, blocks);
        for (; mask; mask &= mask - 1) {
                int i = __builtin_ctzll(mask);

                fill_row(pool, i, q, blocks[i], &peers, now, &rows[view.n_replicas]);
                slots[view.n_replicas++] = (uint8_t)i;
        }
        pick_decide(&PICK_POLICIES[pool->settings.policy], &view, ret);
        if (ret->replica != UINT32_MAX)
                ret->replica = slots[ret->replica];
}

/*
 * Asked after the request was counted. Who puts a replica to sleep says so first, and then looks for what is counted
 * there: one of the two sees the other.
 */
static bool may_get(const struct pool_replica *r)
{
        return r->slot_state == POOL_USED && r->state == PICK_UP;
}

bool pool_reserve(struct pool *pool, unsigned int worker, int replica, bool is_retry, nsec now)
{
        struct pool_replica *r = &pool->replicas[replica];
        int64_t tripped = atomic_load(&r->tripped);
        uint32_t capacity = pool_capacity(pool, replica, now);

        if (!may_get(r)) /* the one try of a breaker is not spent on it */
                return false;
        if (tripped &&
            (now < tripped || !atomic_compare_exchange_strong(&r->tripped, &tripped,
                                                              now + (nsec)pool->settings.breaker_ms * NSEC_PER_MSEC)))
                return false;
        pool_count(pool, worker, replica, POOL_INFLIGHT, 1);
        if (may_get(r) && (is_retry || r->load[POOL_INFLIGHT] + pool_elsewhere(pool, replica, HEARD_INFLIGHT, now) <=
                                               (int64_t)capacity))
                return true;
        pool_count(pool, worker, replica, POOL_INFLIGHT, -1);
        return false;
}

void pool_measure(struct pool_histogram *histogram, nsec span)
{
        nsec usec = span > 0 ? span / NSEC_PER_USEC : 0;
        size_t i = 0;

        while (i < POOL_BUCKETS && usec > POOL_BOUNDS_USEC[i])
                i++;
        atomic_fetch_add_explicit(&histogram->count[i], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&histogram->sum_usec, (uint64_t)usec, memory_order_relaxed);
}
