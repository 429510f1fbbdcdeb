/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which replicas are out, which are busy, and how much may be tried again.
 *
 * The budget of retries bounds storms by rate: it grows by a part of each request (retry_permille) and by time
 * (EACH_SECOND), and saves at most what SPAN earned. A replica that is put out adds what it has in hand: all of that
 * goes elsewhere at once, however much it is, but no replica is put out more often than the breaker lets it back.
 *
 * A replica that was let back is on probation: one more failure, and it is out again.
 */
#include "route/pool.h"

enum {
        ONE = 1000,       /* a retry, in thousandths */
        EACH_SECOND = 10, /* retries */
        SPAN_SECONDS = 10,
};

#define SPAN (SPAN_SECONDS * NSEC_PER_SEC)

/* ---- the budget ---------------------------------------------------------------------------------------------- */

static int64_t most_saved(const struct pool *pool)
{
        const struct pool_budget *b = &pool->budget;
        uint64_t n = b->n > b->was ? b->n : b->was;

        return (int64_t)(EACH_SECOND * ONE + n * pool->settings.retry_permille);
}

static void save(struct pool *pool, int64_t by)
{
        struct pool_budget *b = &pool->budget;
        int64_t level = atomic_load_explicit(&b->level, memory_order_relaxed), most = most_saved(pool);

        if (level < most)
                atomic_fetch_add(&b->level, by < most - level ? by : most - level);
}

static void fill_by_time(struct pool *pool, nsec now)
{
        struct pool_budget *b = &pool->budget;
        int64_t at = atomic_load(&b->at);
        nsec span = at ? now - at : NSEC_PER_SEC;

        if (!pool->settings.retry_permille || span <= 0 || !atomic_compare_exchange_strong(&b->at, &at, now))
                return;
        span = span < NSEC_PER_SEC ? span : NSEC_PER_SEC;
        save(pool, EACH_SECOND * ONE * span / NSEC_PER_SEC);
}

void pool_earn(struct pool *pool, nsec now)
{
        struct pool_budget *b = &pool->budget;
        int64_t at = atomic_load_explicit(&b->span_at, memory_order_relaxed);

        if (now - at > SPAN && atomic_compare_exchange_strong(&b->span_at, &at, now))
                atomic_store(&b->was, now - at > 2 * SPAN ? 0 : atomic_exchange(&b->n, 0));
        atomic_fetch_add_explicit(&b->n, 1, memory_order_relaxed);
        save(pool, pool->settings.retry_permille);
}

bool pool_may_retry(struct pool *pool, nsec now)
{
        struct pool_budget *b = &pool->budget;

        fill_by_time(pool, now);
        if (atomic_fetch_sub(&b->level, ONE) >= ONE)
                return true;
        atomic_fetch_add(&b->level, ONE);
        return false;
}

static void grant(struct pool *pool, int replica)
{
        if (pool->settings.retry_permille)
                atomic_fetch_add(&pool->budget.level, ONE * pool_load(pool, replica, POOL_UNANSWERED));
}

/* ---- out and in ---------------------------------------------------------------------------------------------- */

static bool trip(struct pool *pool, int replica, bool is_out, nsec now)
{
        struct pool_replica *r = &pool->replicas[replica];
        bool was_out = atomic_load(&r->is_out), was_tripped;

        if (is_out)
                atomic_store(&r->is_out, 1);
        was_tripped = atomic_exchange(&r->tripped, now + (nsec)pool->settings.breaker_ms * NSEC_PER_MSEC) != 0;
        if (was_tripped && (was_out || !is_out) && !r->is_hearsay)
                return false;
        atomic_store(&r->is_hearsay, 0);
        atomic_fetch_add(&r->trips, 1);
        grant(pool, replica); /* of one that answers errors, too: the rest of them will come */
        atomic_fetch_add(&pool->serial, 1);
        return true;
}

static bool fail(struct pool *pool, int replica, enum answer answer, nsec now)
{
        struct pool_replica *r = &pool->replicas[replica];
        uint32_t n = atomic_fetch_add(&r->failures, 1) + 1;
        bool is_gone = answer == ANSWER_REFUSED || answer == ANSWER_BROKEN || answer == ANSWER_SILENT;

        atomic_fetch_add(&r->failed, 1);
        if (answer_meaning(answer)->breaker != BREAKER_TRIPS && n < pool->settings.breaker_failures)
                return false;
        return trip(pool, replica, is_gone, now);
}

static void clear(struct pool *pool, int replica)
{
        struct pool_replica *r = &pool->replicas[replica];

        if (atomic_load_explicit(&r->failures, memory_order_relaxed))
                atomic_store(&r->failures, 0);
        if (!atomic_load_explicit(&r->tripped, memory_order_relaxed))
                return;
        atomic_store(&r->is_out, 0);
        atomic_store(&r->is_hearsay, 0);
        if (atomic_exchange(&r->tripped, 0))
                atomic_fetch_add(&pool->serial, 1);
}

bool pool_answered(struct pool *pool, int replica, enum answer answer, nsec now)
{
        switch (answer_meaning(answer)->breaker) {
        case BREAKER_CLEARS:
                clear(pool, replica);
                return false;
        case BREAKER_COUNTS:
        case BREAKER_TRIPS:
                return fail(pool, replica, answer, now);
        default:
                return false;
        }
}

void pool_busy(struct pool *pool, int replica, nsec span, nsec now)
{
        struct pool_replica *r = &pool->replicas[replica];
        int64_t n = pool_load(pool, replica, POOL_INFLIGHT) + pool_elsewhere(pool, replica, HEARD_INFLIGHT, now) - 1;

        atomic_store(&r->busy_room, n > 0 ? (uint32_t)n : 0);
        atomic_store(&r->busy_until, now + span);
}

void pool_told(struct pool *pool, int replica, enum pick_state state)
{
        struct pool_replica *r = &pool->replicas[replica];

        if (state == PICK_UP) {
                uint32_t most = pool->settings.breaker_failures;

                atomic_store(&r->failures, r->tripped && most ? most - 1 : 0);
                atomic_store(&r->is_out, 0);
                atomic_store(&r->is_hearsay, 0);
                atomic_store(&r->tripped, 0);
        }
        if (state == PICK_DOWN && r->slot_state == POOL_USED && r->state != PICK_DOWN)
                grant(pool, replica);
        atomic_store(&r->state, state);
}

void pool_hear_trip(struct pool *pool, int replica, nsec now)
{
        struct pool_replica *r = &pool->replicas[replica];

        if (r->slot_state != POOL_USED || r->state != PICK_UP || r->tripped || !pool->settings.breaker_failures)
                return;
        atomic_store(&r->is_hearsay, 1);
        atomic_store(&r->tripped, now + (nsec)pool->settings.breaker_ms * NSEC_PER_MSEC);
        atomic_fetch_add(&pool->serial, 1);
}

enum pick_state pool_state(const struct pool *pool, int replica, nsec now)
{
        const struct pool_replica *r = &pool->replicas[replica];
        enum pick_state state = (enum pick_state)r->state;

        if (state == PICK_UP && r->tripped && now < r->tripped)
                return PICK_DOWN;
        return state == PICK_ASLEEP && !r->hold ? PICK_DOWN : state;
}

bool pool_is_out(const struct pool *pool, int replica)
{
        const struct pool_replica *r = &pool->replicas[replica];

        return r->state == PICK_DOWN || (r->state == PICK_UP && r->is_out);
}

bool pool_has_other(const struct pool *pool, const struct pool_request *request, nsec now)
{
        for (int i = 0; i < (int)pool->n_slots; i++)
                if (!(request->tried >> i & 1) && pool_one_serves(pool, i, request->model) &&
                    pool_state(pool, i, now) == PICK_UP)
                        return true;
        return false;
}

/* ---- busy ones ------------------------------------------------------------------------------------------------ */

uint32_t pool_capacity(const struct pool *pool, int replica, nsec now)
{
        const struct pool_replica *r = &pool->replicas[replica];
        uint32_t capacity = r->capacity ? r->capacity : UINT32_MAX;

        return now < r->busy_until && r->busy_room < capacity ? r->busy_room : capacity;
}

void pool_bound(const struct pool *pool, int replica, nsec now, struct pick_replica *row)
{
        const struct pool_replica *r = &pool->replicas[replica];
        nsec left = r->busy_until - now;

        if (left <= 0 || row->inflight < r->busy_room)
                return;
        row->inflight = row->inflight ? row->inflight : 1; /* a bound of 0 would be none */
        row->capacity = row->inflight;
        if (row->slot < (double)left / (double)NSEC_PER_SEC && !r->busy_room)
                row->slot = (double)left / (double)NSEC_PER_SEC;
}
