/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request: its body is read and scanned, then a replica is chosen or the request is held. Its load is given back in
 * one place (sublet_release), which every path reaches: the peer is freed, or the request's pool is destroyed.
 *
 * Q1. A request is counted as held before it is decided a second time, and only then is it parked. In the other order,
 *     a slot that is freed in between would ring the bell for no request.
 * Q2. A request is never resumed while the queue is walked: resuming may free any request.
 * Q3. The order of queue.h holds within a worker. Between workers, the first to wake goes first.
 */
#include "route/nginx/module.h"

enum {
        MISSES_MAX = 32, /* requests without a slot in one scan, after which the others are not tried */
};

static ngx_queue_t held; /* by this worker */

/* ---- load ------------------------------------------------------------------------------------------- */

static void count_load(sublet_ctx_t *ctx, int replica, enum pool_load what, int64_t by)
{
        if (by)
                pool_count(ctx->pool, (unsigned int)ngx_process_slot, replica, what, by);
}

void sublet_first_byte(sublet_ctx_t *ctx)
{
        nsec now;

        if (ctx->is_first || ctx->at < 0)
                return;
        now = clock_now();
        ctx->is_first = 1;
        ctx->is_answer = 1;
        ctx->first_at = now;
        count_load(ctx, ctx->at, POOL_UNANSWERED, -1);
        count_load(ctx, ctx->at, POOL_PREFILL, -(int64_t)ctx->fresh);
        rate_first(&ctx->pool->replicas[ctx->at].rate, &ctx->ticket, ctx->is_stream, now);
        pool_worked(ctx->pool, ctx->at);
        pool_measure(&ctx->pool->first, now - ctx->arrived);
}

void sublet_release(sublet_ctx_t *ctx)
{
        int at = ctx->at;

        if (at < 0)
                return;
        if (!ctx->is_first) {
                count_load(ctx, at, POOL_UNANSWERED, -1);
                count_load(ctx, at, POOL_PREFILL, -(int64_t)ctx->fresh);
                rate_drop(&ctx->pool->replicas[at].rate, &ctx->ticket);
        }
        rate_end(&ctx->pool->replicas[at].rate, clock_now());
        count_load(ctx, at, POOL_CONTEXT, -(int64_t)ctx->query.tokens);
        count_load(ctx, at, POOL_INFLIGHT, -1);
        ctx->at = -1;
        ctx->is_first = 0;
        if (pool_load(ctx->pool, POOL_ALL, POOL_HELD))
                sublet_ring();
}

/* ---- deciding --------------------------------------------------------------------------------------- */

/* The address is copied: the slot may be reused while the request runs. */
static int copy_replica(sublet_ctx_t *ctx, int at)
{
        static struct pool_config config;

        if (!pool_read(ctx->pool, at, &config))
                return 0;
        ctx->sockaddr = config.sockaddr;
        ctx->socklen = config.socklen;
        ngx_memcpy(ctx->replica, config.name, sizeof(ctx->replica));
        ctx->peer.len = ngx_strlen(config.address);
        ctx->peer.data = ngx_pnalloc(ctx->request->pool, ctx->peer.len);
        if (!ctx->peer.data)
                return 0;
        ngx_memcpy(ctx->peer.data, config.address, ctx->peer.len);
        return 1;
}

static void charge(sublet_ctx_t *ctx, int at, nsec now)
{
        struct pool_replica *replica = &ctx->pool->replicas[at];

        ctx->at = at;
        ctx->decided = now;
        ctx->fresh = ctx->query.tokens - ctx->verdict.matched;
        count_load(ctx, at, POOL_UNANSWERED, 1);
        count_load(ctx, at, POOL_PREFILL, ctx->fresh);
        count_load(ctx, at, POOL_CONTEXT, ctx->query.tokens);
        rate_send(&replica->rate, ctx->verdict.work, now, &ctx->ticket);
        atomic_fetch_add(&replica->sent, 1);
        atomic_fetch_add(&replica->prompted, ctx->query.tokens);
        atomic_fetch_add(&replica->matched, ctx->verdict.matched);
        index_put(ctx->pool->index, (unsigned int)at, ctx->query.chain, ctx->query.n_blocks);
}

/* Counts the request as waiting for a replica; the agent is notified of a sleeping one once. */
static void wait_for(sublet_ctx_t *ctx, int replica, int64_t work, int is_asleep)
{
        struct pool_request *query = &ctx->query;

        if (query->wanted >= 0) {
                count_load(ctx, query->wanted, POOL_WANTED, -1);
                count_load(ctx, query->wanted, POOL_WANTED_WORK, -query->wanted_work);
        }
        query->wanted = replica;
        query->wanted_work = is_asleep ? work : 0;
        if (replica < 0)
                return;
        count_load(ctx, replica, POOL_WANTED, 1);
        count_load(ctx, replica, POOL_WANTED_WORK, query->wanted_work);
        if (is_asleep && ctx->woken != replica) {
                ctx->woken = replica;
                atomic_fetch_add(&ctx->pool->serial, 1);
                sublet_ring();
        }
}

/* NGX_DECLINED: reserved, go on; NGX_AGAIN: hold; NGX_ERROR: no replica. */
ngx_int_t sublet_decide(sublet_ctx_t *ctx, int is_retry)
{
        struct pick *verdict = &ctx->verdict;
        int64_t n_held = pool_load(ctx->pool, POOL_ALL, POOL_HELD) - ctx->is_held;
        nsec now = clock_now();

        ctx->query.is_retry = is_retry;
        for (int i = 0; i < 4; i++) {
                ctx->query.random = (uint64_t)ngx_random() << 32 ^ (uint64_t)now;
                pool_decide(ctx->pool, &ctx->query, n_held > 0 ? (uint32_t)n_held : 0, now, verdict);
                if (verdict->action == PICK_REFUSE)
                        return NGX_ERROR;
                if (verdict->action != PICK_SEND)
                        return NGX_AGAIN;
                if (!pool_reserve(ctx->pool, (unsigned int)ngx_process_slot, (int)verdict->replica, is_retry, now))
                        continue; /* another request took the slot */
                if (copy_replica(ctx, (int)verdict->replica)) {
                        charge(ctx, (int)verdict->replica, now);
                        return NGX_DECLINED;
                }
                count_load(ctx, (int)verdict->replica, POOL_INFLIGHT, -1);
        }
        verdict->action = PICK_HOLD;
        verdict->replica = UINT32_MAX;
        return NGX_AGAIN;
}

int sublet_turn_away(sublet_ctx_t *ctx, enum pool_outcome outcome, const char *code)
{
        ctx->outcome = outcome;
        ctx->refusal = code;
        ctx->rc = NGX_ERROR;
        return 0;
}

/* ---- holding ---------------------------------------------------------------------------------------- */

static void unpark(sublet_ctx_t *ctx)
{
        wait_for(ctx, -1, 0, 0);
        if (ctx->is_held) {
                ctx->is_held = 0;
                ctx->held_for = clock_now() - ctx->arrived;
                count_load(ctx, POOL_ALL, POOL_HELD, -1);
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

        ctx->item.cached_permille = ctx->query.tokens ? v->matched * 1000 / ctx->query.tokens : 0;
        if (replica != ctx->query.wanted || v->action == PICK_WAKE)
                wait_for(ctx, replica, (int64_t)v->work, v->action == PICK_WAKE);
}

static ngx_int_t park(sublet_ctx_t *ctx)
{
        ngx_http_request_t *r = ctx->request;
        ngx_event_t *read = r->connection->read;
        nsec left = ctx->item.deadline - clock_now();

        if (read->ready) {
                ngx_post_event(read, &ngx_posted_events); /* the client may be gone already */
        } else if (ngx_handle_read_event(read, 0) != NGX_OK) {
                return NGX_ERROR;
        }
        r->read_event_handler = ngx_http_test_reading; /* 499 when the client leaves */
        r->write_event_handler = ngx_http_request_empty_handler;
        ngx_queue_insert_tail(&held, &ctx->queue);
        ctx->is_parked = 1;
        ctx->was_held = 1;
        ngx_add_timer(&ctx->deadline, left > 0 ? (ngx_msec_t)(left / NSEC_PER_MSEC) + 1 : 1);
        note_wait(ctx);
        atomic_fetch_add(&ctx->pool->holds, 1);
        return NGX_OK;
}

static void resume(sublet_ctx_t *ctx)
{
        unpark(ctx);
        ngx_post_event(&ctx->resume, &ngx_posted_events);
}

static void on_resume(ngx_event_t *event)
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

static void on_deadline(ngx_event_t *event)
{
        sublet_ctx_t *ctx = event->data;

        unpark(ctx);
        (void)sublet_turn_away(ctx, POOL_LATE, "deadline");
        on_resume(&ctx->resume);
}

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

static sublet_ctx_t *last_held(struct pool *pool)
{
        sort_now = clock_now();
        ngx_queue_sort(&held, compare_held);
        for (ngx_queue_t *q = ngx_queue_last(&held); q != ngx_queue_sentinel(&held); q = ngx_queue_prev(q))
                if (ctx_of(q)->pool == pool)
                        return ctx_of(q);
        return NULL;
}

void sublet_queue_init(void)
{
        ngx_queue_init(&held);
}

void sublet_queue_scan(void)
{
        ngx_queue_t *q, *next;
        int misses = MISSES_MAX;

        if (ngx_queue_empty(&held))
                return;
        sort_now = clock_now();
        ngx_queue_sort(&held, compare_held);
        for (q = ngx_queue_head(&held); q != ngx_queue_sentinel(&held) && misses; q = next) {
                sublet_ctx_t *ctx = ctx_of(q);

                next = ngx_queue_next(q);
                ctx->rc = sublet_decide(ctx, 0);
                if (ctx->rc == NGX_AGAIN) {
                        note_wait(ctx);
                        misses--;
                        continue;
                }
                if (ctx->rc == NGX_ERROR)
                        (void)sublet_turn_away(ctx, POOL_NOBODY, "no_replica");
                resume(ctx);
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

static int hold(sublet_ctx_t *ctx)
{
        if (!admit(ctx))
                return sublet_turn_away(ctx, POOL_FULL, "queue_full");
        ctx->is_held = 1;
        count_load(ctx, POOL_ALL, POOL_HELD, 1);
        ctx->rc = sublet_decide(ctx, 0); /* Q1 */
        if (ctx->rc == NGX_AGAIN && park(ctx) == NGX_OK)
                return 1;
        unpark(ctx);
        return 0;
}

/* ---- the body --------------------------------------------------------------------------------------- */

/* 0: parked; the phases go on later. */
static int decide_or_hold(sublet_ctx_t *ctx)
{
        nsec began = clock_now();

        if (sublet_read_request(ctx)) {
                ctx->rc = sublet_decide(ctx, 0);
                ctx->decision_took = clock_now() - began;
                pool_measure(&ctx->pool->decision, ctx->decision_took);
                if (ctx->rc == NGX_AGAIN && hold(ctx))
                        return 0;
                if (ctx->rc == NGX_ERROR && !ctx->refusal)
                        (void)sublet_turn_away(ctx, POOL_NOBODY, "no_replica");
        }
        return 1;
}

static void body_ready(ngx_http_request_t *r) /* from inside the call, or later from an event */
{
        sublet_ctx_t *ctx = sublet_ctx(r);

        ctx->has_body = 1;
        r->preserve_body = 1;
        pool_earn(ctx->pool);
        if (!decide_or_hold(ctx))
                return;
        r->write_event_handler = ngx_http_core_run_phases;
        ngx_http_core_run_phases(r);
}

/* ---- phases ----------------------------------------------------------------------------------------- */

/* The request's pool is destroyed: every path ends here. */
static void cleanup(void *data)
{
        sublet_ctx_t *ctx = data;

        unpark(ctx);
        if (ctx->resume.posted) {
                ngx_delete_posted_event(&ctx->resume);
        }
        sublet_release(ctx);
}

sublet_ctx_t *sublet_ctx(ngx_http_request_t *r)
{
        sublet_ctx_t *ctx = ngx_http_get_module_ctx(r->main, ngx_http_sublet_module);

        if (ctx || !(r->internal || r->filter_finalize))
                return ctx;
        for (ngx_pool_cleanup_t *c = r->pool->cleanup; c; c = c->next) /* an internal redirect forgets contexts */
                if (c->handler == cleanup)
                        return c->data;
        return NULL;
}

static sublet_ctx_t *make_ctx(ngx_http_request_t *r, struct pool *pool)
{
        ngx_pool_cleanup_t *c = ngx_pool_cleanup_add(r->pool, sizeof(sublet_ctx_t));
        sublet_ctx_t *ctx;

        if (!c)
                return NULL;
        ctx = c->data;
        ngx_memzero(ctx, sizeof(*ctx));
        c->handler = cleanup;
        ctx->request = r;
        ctx->pool = pool;
        ctx->at = ctx->woken = ctx->query.wanted = -1;
        ctx->arrived = ctx->item.arrived = clock_now();
        ctx->item.deadline = ctx->arrived + (nsec)pool->settings.hold_ms * NSEC_PER_MSEC;
        ctx->deadline = (ngx_event_t){ .handler = on_deadline, .data = ctx, .log = r->connection->log };
        ctx->resume = (ngx_event_t){ .handler = on_resume, .data = ctx, .log = r->connection->log };
        ngx_http_set_ctx(r, ctx, ngx_http_sublet_module);
        return ctx;
}

static ngx_int_t continue_request(ngx_http_request_t *r, sublet_ctx_t *ctx)
{
        if (!ctx->has_body || ctx->is_parked)
                return NGX_DONE;
        if (ctx->rc != NGX_DECLINED)
                r->content_handler = sublet_refuse; /* in place of proxy_pass */
        return NGX_DECLINED;
}

ngx_int_t sublet_route(ngx_http_request_t *r)
{
        sublet_loc_t *conf = ngx_http_get_module_loc_conf(r, ngx_http_sublet_module);
        sublet_ctx_t *ctx = ngx_http_get_module_ctx(r, ngx_http_sublet_module);
        ngx_int_t rc;

        if (!conf->route || r != r->main)
                return NGX_DECLINED;
        if (ctx)
                return continue_request(r, ctx);
        ctx = make_ctx(r, conf->route->pool);
        if (!ctx)
                return NGX_ERROR;
        r->request_body_in_single_buf = 1;
        rc = ngx_http_read_client_request_body(r, body_ready); /* counts the request */
        if (rc >= NGX_HTTP_SPECIAL_RESPONSE)
                return rc;
        ngx_http_finalize_request(r, NGX_DONE); /* and this one discounts it */
        return NGX_DONE;
}
