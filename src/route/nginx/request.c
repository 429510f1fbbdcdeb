/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request: its body is read and scanned, then a replica is chosen or the request is held. Its load is given back in
 * one place (sublet_release), which every path reaches: the peer is freed, or the request's pool is destroyed.
 */
#include "route/nginx/module.h"

enum {
        TOKENS_MAX = 1 << 20,
        SPAN_SECONDS_MAX = 100000,
};

#define TOKEN_SECONDS 0.02 /* of an answer: what the replica really takes is learned on top */

/* ---- load ------------------------------------------------------------------------------------------- */

void sublet_count(sublet_ctx_t *ctx, int replica, enum pool_load what, int64_t by)
{
        if (by)
                pool_count(ctx->pool, (unsigned int)ngx_process_slot, replica, what, by);
}

/* A stream's first byte ends its prefill; an answer in one piece comes after all its tokens. */
static nsec expected_span(const sublet_ctx_t *ctx)
{
        double span = ctx->verdict.wait + ctx->verdict.prefill;

        if (!ctx->is_stream && (ctx->max_tokens <= 0 || ctx->max_tokens > TOKENS_MAX))
                return 0;
        if (!ctx->is_stream)
                span += (double)ctx->max_tokens * TOKEN_SECONDS;
        return span < SPAN_SECONDS_MAX ? (nsec)(span * (double)NSEC_PER_SEC) + 1 : 0;
}

static void learn_patience(sublet_ctx_t *ctx, nsec now)
{
        if (ctx->expected)
                patience_learn(&ctx->pool->replicas[ctx->at].patience[ctx->is_stream], ctx->expected,
                               now - ctx->decided);
}

static void set_first_by(sublet_ctx_t *ctx, nsec now)
{
        nsec most = (nsec)ctx->pool->settings.first_byte_ms * NSEC_PER_MSEC, limit = 0;

        ctx->expected = expected_span(ctx);
        if (ctx->expected)
                limit = patience_limit(&ctx->pool->replicas[ctx->at].patience[ctx->is_stream], ctx->expected);
        ctx->first_by = now + (limit && limit < most ? limit : most);
}

void sublet_first_byte(sublet_ctx_t *ctx)
{
        nsec now;

        if (ctx->is_first || ctx->at < 0)
                return;
        now = clock_now();
        sublet_unwatch(ctx);
        ctx->is_first = 1;
        ctx->is_answer = 1;
        sublet_count(ctx, ctx->at, POOL_UNANSWERED, -1);
        sublet_count(ctx, ctx->at, POOL_PREFILL, -(int64_t)ctx->fresh);
        learn_patience(ctx, now);
        rate_first(&ctx->pool->replicas[ctx->at].rate, &ctx->ticket, ctx->is_stream, now);
        (void)pool_answered(ctx->pool, ctx->at, ANSWER_GOOD, now);
        if (!ctx->first_at) { /* else the rest of a stream */
                ctx->first_at = now;
                pool_measure(&ctx->pool->first, now - ctx->arrived);
        }
}

/* What was given up counts as if it had come now. */
void sublet_gave_up(sublet_ctx_t *ctx, nsec now)
{
        if (ctx->at >= 0 && !ctx->is_first)
                learn_patience(ctx, now);
}

void sublet_release(sublet_ctx_t *ctx)
{
        int at = ctx->at;

        if (at < 0)
                return;
        sublet_unwatch(ctx);
        if (!ctx->is_first) {
                sublet_count(ctx, at, POOL_UNANSWERED, -1);
                sublet_count(ctx, at, POOL_PREFILL, -(int64_t)ctx->fresh);
                rate_drop(&ctx->pool->replicas[at].rate, &ctx->ticket);
        }
        rate_end(&ctx->pool->replicas[at].rate, clock_now());
        sublet_count(ctx, at, POOL_CONTEXT, -(int64_t)ctx->query.tokens);
        sublet_count(ctx, at, POOL_INFLIGHT, -1);
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

        if (!pool_reach(ctx->pool, at, &config))
                return 0;
        ctx->sockaddr = config.sockaddr;
        ctx->socklen = config.socklen;
        ngx_memcpy(ctx->replica, config.name, sizeof(ctx->replica));
        ngx_memcpy(ctx->server_name, config.server_name, sizeof(ctx->server_name));
        ctx->is_tls = config.is_tls;
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
        ctx->fresh = ctx->is_stream ? ctx->query.tokens - ctx->verdict.matched : 0; /* others answer at their end */
        sublet_count(ctx, at, POOL_UNANSWERED, 1);
        sublet_count(ctx, at, POOL_PREFILL, ctx->fresh);
        sublet_count(ctx, at, POOL_CONTEXT, ctx->query.tokens);
        rate_send(&replica->rate, ctx->verdict.work, now, &ctx->ticket);
        ctx->ticket.per_second = ctx->verdict.prefill > 0 ? ctx->verdict.work / ctx->verdict.prefill : 0;
        atomic_fetch_add(&replica->sent, 1);
        atomic_fetch_add(&replica->prompted, ctx->query.tokens);
        atomic_fetch_add(&replica->matched, ctx->verdict.matched);
        pool_sent(ctx->pool, at, ctx->query.chain, ctx->query.n_blocks, now);
        set_first_by(ctx, now);
        sublet_watch(ctx);
}

/* NGX_DECLINED: reserved, go on; NGX_AGAIN: hold; NGX_ERROR: no replica. */
ngx_int_t sublet_decide(sublet_ctx_t *ctx, int is_last)
{
        struct pick *verdict = &ctx->verdict;
        int64_t n_held = pool_load(ctx->pool, POOL_ALL, POOL_HELD) - ctx->is_held;
        nsec now = clock_now();

        ctx->query.is_retry = is_last;
        for (int i = 0; i < 4; i++) {
                ctx->query.random = (uint64_t)ngx_random() << 32 ^ (uint64_t)now;
                pool_decide(ctx->pool, &ctx->query, n_held > 0 ? (uint32_t)n_held : 0, now, verdict);
                if (verdict->action == PICK_REFUSE)
                        return NGX_ERROR;
                if (verdict->action != PICK_SEND)
                        return NGX_AGAIN;
                if (!pool_reserve(ctx->pool, (unsigned int)ngx_process_slot, (int)verdict->replica, is_last, now))
                        continue; /* another request took the slot */
                if (copy_replica(ctx, (int)verdict->replica)) {
                        charge(ctx, (int)verdict->replica, now);
                        return NGX_DECLINED;
                }
                sublet_count(ctx, (int)verdict->replica, POOL_INFLIGHT, -1);
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

/* ---- the body --------------------------------------------------------------------------------------- */

/* 0: parked; the phases go on later. */
static int decide_or_hold(sublet_ctx_t *ctx, nsec began)
{
        if (sublet_read_request(ctx) && sublet_limits_reserve(ctx)) {
                ctx->rc = sublet_decide(ctx, 0);
                ctx->decision_took = clock_now() - began;
                pool_measure(&ctx->pool->decision, ctx->decision_took);
                if (sublet_may_hold(ctx) && sublet_hold(ctx))
                        return 0;
                sublet_nobody(ctx);
        }
        return 1;
}

static void body_ready(ngx_http_request_t *r) /* from inside the call, or later from an event */
{
        sublet_ctx_t *ctx = sublet_ctx(r);
        nsec now;

        if (ctx->has_body) /* it was refused before it was whole */
                return;
        if (ctx->body_due.timer_set) {
                ngx_del_timer(&ctx->body_due);
        }
        ctx->has_body = 1;
        r->preserve_body = 1;
        now = clock_now();
        pool_earn(ctx->pool, now);
        if (!decide_or_hold(ctx, now))
                return;
        r->write_event_handler = ngx_http_core_run_phases;
        ngx_http_core_run_phases(r);
}

/* nginx bounds the time between two parts of a body, not the whole. The rest is not waited for. */
static void on_body_due(ngx_event_t *event)
{
        sublet_ctx_t *ctx = event->data;
        ngx_http_request_t *r = ctx->request;
        ngx_connection_t *c = r->connection;

        if (ctx->has_body || r->header_sent || r->internal) /* nginx has ended it, and may linger */
                return;
        ngx_http_set_log_request(c->log, r);
        if (c->read->timer_set) {
                ngx_del_timer(c->read);
        }
        ctx->has_body = 1;
        (void)sublet_turn_away(ctx, POOL_BAD, "body_timeout");
        r->keepalive = 0;
        if (r->stream)
                r->stream->skip_data = 1;
        r->read_event_handler = ngx_http_block_reading;
        r->write_event_handler = ngx_http_core_run_phases;
        ngx_http_core_run_phases(r); /* r may be freed here */
        ngx_http_run_posted_requests(c);
}

/* ---- phases ----------------------------------------------------------------------------------------- */

/* The request's pool is destroyed: every path ends here. */
static void cleanup(void *data)
{
        sublet_ctx_t *ctx = data;

        sublet_loud(ctx);
        sublet_unpark(ctx);
        if (ctx->resume.posted) {
                ngx_delete_posted_event(&ctx->resume);
        }
        if (ctx->waiting.posted) {
                ngx_delete_posted_event(&ctx->waiting);
        }
        if (ctx->body_due.timer_set) {
                ngx_del_timer(&ctx->body_due);
        }
        sublet_release(ctx);
        sublet_limits_leave(ctx);
        sublet_session_end(ctx);
        sublet_sequel_end(ctx);
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
        ctx->key = sublet_key_of(r);
        ctx->at = ctx->woken = ctx->query.wanted = -1;
        ctx->arrived = ctx->item.arrived = clock_now();
        ctx->item.deadline = ctx->item.due = ctx->arrived + (nsec)pool->settings.hold_ms * NSEC_PER_MSEC;
        ctx->deadline = (ngx_event_t){ .handler = sublet_on_deadline, .data = ctx, .log = r->connection->log };
        ctx->resume = (ngx_event_t){ .handler = sublet_on_resume, .data = ctx, .log = r->connection->log };
        ctx->waiting = (ngx_event_t){ .handler = sublet_on_waiting, .data = ctx, .log = r->connection->log };
        ctx->body_due = (ngx_event_t){ .handler = on_body_due, .data = ctx, .log = r->connection->log };
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
        ngx_msec_t body_ms;
        ngx_int_t rc;

        if (!conf->route || r != r->main)
                return NGX_DECLINED;
        if (ctx)
                return continue_request(r, ctx);
        ctx = make_ctx(r, conf->route->pool);
        if (!ctx)
                return NGX_ERROR;
        if (!sublet_limits_enter(ctx) || !sublet_path_check(ctx)) {
                ctx->has_body = 1;
                rc = ngx_http_discard_request_body(r);
                return rc == NGX_OK ? continue_request(r, ctx) : rc;
        }
        r->request_body_in_single_buf = 1;
        rc = ngx_http_read_client_request_body(r, body_ready); /* counts the request */
        if (rc >= NGX_HTTP_SPECIAL_RESPONSE)
                return rc;
        body_ms = ctx->pool->settings.body_ms;
        if (rc == NGX_AGAIN && body_ms) { /* it is not whole yet */
                ngx_add_timer(&ctx->body_due, body_ms);
        }
        ngx_http_finalize_request(r, NGX_DONE); /* and this one discounts it */
        return NGX_DONE;
}
