/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are held: until a slot is free, a replica is awake, or one is up at all. Two kinds are in one queue:
 * those that were sent nowhere yet (parked in a phase) and those whose replica failed before it answered (waiting as a
 * peer of nginx's upstream, see upstream.c).
 *
 * Q1. A request is counted as held before it is decided a second time, and only then is it parked. In the other order,
 *     a slot that is freed in between would ring the bell for no request.
 * Q2. A request is never resumed while the queue is walked: resuming may free any request.
 * Q3. The order of queue.h holds within a worker. Between workers, the first to wake goes first.
 */
#include "route/nginx/module.h"

enum {
        MISSES_MAX = 32, /* requests of a model without a slot in one scan, after which its others are not tried */
        MODELS_MAX = 64, /* models that are told apart by this */
};

static ngx_queue_t held; /* by this worker */

/* ---- counting ---------------------------------------------------------------------------------------- */

/* Counts the request as waiting for a replica; the agent is notified of a sleeping one once. */
static void wait_for(sublet_ctx_t *ctx, int replica, int64_t work, int is_asleep)
{
        struct pool_request *query = &ctx->query;

        if (query->wanted >= 0) {
                sublet_count(ctx, query->wanted, POOL_WANTED, -1);
                sublet_count(ctx, query->wanted, POOL_WANTED_WORK, -query->wanted_work);
        }
        query->wanted = replica;
        query->wanted_work = is_asleep ? work : 0;
        if (replica < 0)
                return;
        sublet_count(ctx, replica, POOL_WANTED, 1);
        sublet_count(ctx, replica, POOL_WANTED_WORK, query->wanted_work);
        if (is_asleep && ctx->woken != replica) {
                ctx->woken = replica;
                atomic_fetch_add(&ctx->pool->serial, 1);
                sublet_ring();
        }
}

void sublet_unpark(sublet_ctx_t *ctx)
{
        wait_for(ctx, -1, 0, 0);
        if (ctx->is_held) {
                ctx->is_held = 0;
                ctx->held_for += clock_now() - ctx->held_at;
                sublet_count(ctx, POOL_ALL, POOL_HELD, -1);
        }
        if (ctx->is_parked) {
                ctx->is_parked = 0;
                ngx_queue_remove(&ctx->queue);
        }
        if (ctx->deadline.timer_set) {
                ngx_del_timer(&ctx->deadline);
        }
}

static void note_wait(sublet_ctx_t *ctx)
{
        const struct pick *v = &ctx->verdict;
        int replica = v->replica == UINT32_MAX ? -1 : (int)v->replica;

        ctx->is_nobody = ctx->rc == NGX_ERROR;
        ctx->item.cached_permille = ctx->query.tokens ? v->matched * 1000 / ctx->query.tokens : 0;
        if (replica != ctx->query.wanted || v->action == PICK_WAKE)
                wait_for(ctx, replica, (int64_t)v->work, v->action == PICK_WAKE);
}

static void insert(sublet_ctx_t *ctx)
{
        nsec left = ctx->item.deadline - clock_now();

        ngx_queue_insert_tail(&held, &ctx->queue);
        ctx->is_parked = 1;
        ctx->was_held = 1;
        ngx_add_timer(&ctx->deadline, left > 0 ? (ngx_msec_t)(left / NSEC_PER_MSEC) + 1 : 1);
        note_wait(ctx);
        atomic_fetch_add(&ctx->pool->holds, 1);
}

static ngx_int_t park(sublet_ctx_t *ctx)
{
        ngx_http_request_t *r = ctx->request;
        ngx_event_t *read = r->connection->read;

        if (read->ready) {
                ngx_post_event(read, &ngx_posted_events); /* the client may be gone already */
        } else if (ngx_handle_read_event(read, 0) != NGX_OK) {
                return NGX_ERROR;
        }
        r->read_event_handler = ngx_http_test_reading; /* 499 when the client leaves */
        r->write_event_handler = ngx_http_request_empty_handler;
        insert(ctx);
        return NGX_OK;
}

/* ---- going on ------------------------------------------------------------------------------------------ */

static void resume(sublet_ctx_t *ctx)
{
        sublet_unpark(ctx);
        if (ctx->is_waiting)
                sublet_peer_resume(ctx);
        else
                ngx_post_event(&ctx->resume, &ngx_posted_events);
}

void sublet_on_resume(ngx_event_t *event)
{
        sublet_ctx_t *ctx = event->data;
        ngx_http_request_t *r = ctx->request;
        ngx_connection_t *c = r->connection;

        ngx_http_set_log_request(c->log, r);
        r->read_event_handler = ngx_http_block_reading;
        r->write_event_handler = ngx_http_core_run_phases;
        ngx_http_core_run_phases(r); /* r may be freed here */
        ngx_http_run_posted_requests(c);
}

/* One that was in the hands of a replica goes above a bound before it is given up. */
void sublet_on_deadline(ngx_event_t *event)
{
        sublet_ctx_t *ctx = event->data;

        if (!ctx->is_waiting || sublet_decide(ctx, 1) != NGX_DECLINED)
                (void)sublet_turn_away(ctx, ctx->is_nobody ? POOL_NOBODY : POOL_LATE,
                                       ctx->is_nobody ? "no_replica" : "deadline");
        resume(ctx);
}

/* ---- the queue ------------------------------------------------------------------------------------------ */

static nsec sort_now;

static sublet_ctx_t *ctx_of(const ngx_queue_t *q)
{
        return ngx_queue_data((ngx_queue_t *)(uintptr_t)q, sublet_ctx_t, queue);
}

static ngx_int_t compare_held(const ngx_queue_t *a, const ngx_queue_t *b)
{
        const struct queue_item *x = &ctx_of(a)->item;
        const struct queue_item *y = &ctx_of(b)->item;

        return queue_before(y, x, sort_now) ? 1 : queue_before(x, y, sort_now) ? -1 : 0;
}

/* One that was sent before is never displaced. */
static sublet_ctx_t *last_held(struct pool *pool)
{
        sort_now = clock_now();
        ngx_queue_sort(&held, compare_held);
        for (ngx_queue_t *q = ngx_queue_last(&held); q != ngx_queue_sentinel(&held); q = ngx_queue_prev(q))
                if (ctx_of(q)->pool == pool && !ctx_of(q)->is_waiting)
                        return ctx_of(q);
        return NULL;
}

void sublet_queue_init(void)
{
        ngx_queue_init(&held);
}

int sublet_queue_is_empty(void)
{
        return ngx_queue_empty(&held);
}

/* Misses by model, so that a model without replicas does not hide the others. */
struct misses {
        size_t n;
        uint64_t models[MODELS_MAX];
        uint32_t counts[MODELS_MAX];
};

static uint32_t *misses_of(struct misses *misses, uint64_t model)
{
        size_t i = 0;

        while (i < misses->n && misses->models[i] != model)
                i++;
        if (i == MODELS_MAX)
                return NULL;
        if (i == misses->n) {
                misses->models[i] = model;
                misses->counts[i] = 0;
                misses->n++;
        }
        return &misses->counts[i];
}

/* It stays: nobody can take it now, and somebody may. */
int sublet_may_hold(sublet_ctx_t *ctx)
{
        struct pool_request any = ctx->query;

        if (ctx->rc == NGX_AGAIN)
                return 1;
        any.tried = 0;
        if (ctx->rc != NGX_ERROR || ctx->refusal || clock_now() >= ctx->item.deadline)
                return 0;
        if (pool_has_other(ctx->pool, &any, clock_now()))
                return 0; /* it is too large for them */
        return !ctx->pool->settings.is_complete || pool_serves(ctx->pool, ctx->query.model);
}

void sublet_nobody(sublet_ctx_t *ctx)
{
        if (ctx->rc != NGX_ERROR || ctx->refusal)
                return;
        if (ctx->pool->settings.is_complete && !pool_serves(ctx->pool, ctx->query.model))
                (void)sublet_turn_away(ctx, POOL_UNKNOWN, "model_not_found");
        else
                (void)sublet_turn_away(ctx, POOL_NOBODY, "no_replica");
}

static void retry_held(sublet_ctx_t *ctx, struct misses *misses)
{
        uint32_t *n = misses_of(misses, ctx->query.model);

        if (!n || *n >= MISSES_MAX)
                return;
        ctx->rc = sublet_decide(ctx, 0);
        if (sublet_may_hold(ctx)) {
                note_wait(ctx);
                ++*n;
                return;
        }
        sublet_nobody(ctx);
        resume(ctx);
}

void sublet_queue_scan(void)
{
        struct misses misses = { .n = 0 };
        ngx_queue_t *q, *next;

        if (ngx_queue_empty(&held))
                return;
        sort_now = clock_now();
        ngx_queue_sort(&held, compare_held);
        for (q = ngx_queue_head(&held); q != ngx_queue_sentinel(&held); q = next) {
                next = ngx_queue_next(q);
                retry_held(ctx_of(q), &misses);
        }
}

/* Whether it may be held; a request of lower priority may be refused for it. */
static int admit(sublet_ctx_t *ctx)
{
        size_t n = (size_t)pool_load(ctx->pool, POOL_ALL, POOL_HELD), bound = ctx->pool->settings.queue;
        sublet_ctx_t *last = n >= bound ? last_held(ctx->pool) : NULL;

        switch (queue_admit(n, bound, &ctx->item, last ? &last->item : NULL)) {
        case QUEUE_ADMIT:
                return 1;
        case QUEUE_DISPLACE:
                (void)sublet_turn_away(last, POOL_FULL, "queue_full");
                resume(last);
                return 1;
        default:
                return 0;
        }
}

static void count_held(sublet_ctx_t *ctx)
{
        ctx->is_held = 1;
        ctx->held_at = clock_now();
        sublet_count(ctx, POOL_ALL, POOL_HELD, 1);
        ctx->rc = sublet_decide(ctx, 0); /* Q1 */
}

int sublet_hold(sublet_ctx_t *ctx)
{
        if (!admit(ctx))
                return sublet_turn_away(ctx, POOL_FULL, "queue_full");
        count_held(ctx);
        if (sublet_may_hold(ctx) && park(ctx) == NGX_OK)
                return 1;
        sublet_unpark(ctx);
        return 0;
}

/* Its patience begins anew, unless the client said how long: what it waited for so far was no queue. */
ngx_int_t sublet_hold_again(sublet_ctx_t *ctx)
{
        nsec hold = (nsec)ctx->pool->settings.hold_ms * NSEC_PER_MSEC, until = clock_now() + hold;

        if (!ctx->has_deadline && ctx->answer != ANSWER_BUSY && until > ctx->item.deadline)
                ctx->item.deadline = ctx->item.due = until;
        count_held(ctx);
        if (!sublet_may_hold(ctx)) {
                sublet_unpark(ctx);
                return ctx->rc;
        }
        insert(ctx);
        return NGX_AGAIN;
}
