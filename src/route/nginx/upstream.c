/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chosen replica as nginx's peer, and what comes after a try that failed: another replica, or waiting for one.
 * nginx cannot hold a request that has begun to be proxied, so one that must wait has a peer that never connects: a
 * descriptor that nothing is ever read from or written to. When it can go on, nginx is told that the connection timed
 * out, and takes the next peer.
 */
#include "route/nginx/module.h"

#include <sys/eventfd.h>

enum {
        TRIES = 2, /* more than one: nginx goes on. 0: it does not */
};

#define STALE_WITHIN NSEC_PER_SEC /* a kept connection that was closed already shows it at once */

/* ---- waiting ----------------------------------------------------------------------------------------- */

/* What nginx would log of its peer would be wrong. */
void sublet_quiet(sublet_ctx_t *ctx)
{
        ngx_log_t *log = ctx->request->connection->log;

        if (!ctx->log_level)
                ctx->log_level = log->log_level;
        log->log_level = NGX_LOG_ALERT;
}

void sublet_loud(sublet_ctx_t *ctx)
{
        if (ctx->log_level)
                ctx->request->connection->log->log_level = ctx->log_level;
        ctx->log_level = 0;
}

/* nginx has set its timer for connecting; this wait has one of its own. */
void sublet_on_waiting(ngx_event_t *event)
{
        sublet_ctx_t *ctx = event->data;
        ngx_connection_t *c = ctx->request->upstream->peer.connection;

        if (ctx->is_waiting && c && c->write->timer_set) {
                ngx_del_timer(c->write);
        }
}

static ngx_int_t wait_as_peer(ngx_peer_connection_t *pc, sublet_ctx_t *ctx)
{
        static ngx_str_t name = ngx_string("held");
        int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        ngx_connection_t *c = fd < 0 ? NULL : ngx_get_connection(fd, pc->log);

        if (!c) {
                if (fd >= 0)
                        (void)close(fd);
                sublet_unpark(ctx);
                return NGX_ERROR;
        }
        c->log = c->read->log = c->write->log = pc->log;
        c->write->handler = c->read->handler = NULL; /* nginx sets its own */
        c->log_error = pc->log_error;
        ctx->is_waiting = 1;
        ctx->request->upstream->ssl = 0;
        pc->connection = c;
        pc->cached = 0;
        pc->sockaddr = (struct sockaddr *)&ctx->sockaddr;
        pc->socklen = ctx->socklen;
        pc->name = &name;
        ngx_post_event(&ctx->waiting, &ngx_posted_events);
        return NGX_AGAIN;
}

void sublet_peer_resume(sublet_ctx_t *ctx)
{
        ngx_connection_t *c = ctx->request->upstream->peer.connection;

        sublet_quiet(ctx);
        c->write->timedout = 1;
        ngx_post_event(c->write, &ngx_posted_events);
}

/* ---- a try --------------------------------------------------------------------------------------------- */

static ngx_int_t get_peer(ngx_peer_connection_t *pc, void *data)
{
        sublet_ctx_t *ctx = data;

        sublet_loud(ctx);
        if (ctx->refusal)
                return NGX_BUSY; /* it waited in vain */
        if (ctx->at < 0) {
                ctx->rc = sublet_decide(ctx, 0);
                if (ctx->rc != NGX_DECLINED)
                        ctx->rc = sublet_hold_again(ctx);
                if (ctx->rc == NGX_AGAIN)
                        return wait_as_peer(pc, ctx);
                if (ctx->rc != NGX_DECLINED)
                        return NGX_BUSY;
        }
        if (ctx->is_tls && !ctx->request->upstream->conf->ssl) {
                ngx_log_error(NGX_LOG_ERR, pc->log, 0, "replica %s wants TLS: proxy_pass is not https://",
                              ctx->replica);
                return NGX_ERROR;
        }
        ctx->request->upstream->ssl = ctx->is_tls;
        ctx->n_tries++;
        ctx->answer = ANSWER_NONE;
        ctx->is_bought = 0;
        pc->cached = 0;
        pc->connection = NULL;
        pc->sockaddr = (struct sockaddr *)&ctx->sockaddr;
        pc->socklen = ctx->socklen;
        pc->name = ngx_palloc(ctx->request->pool, sizeof(ngx_str_t)); /* one per try: $upstream_addr keeps it */
        if (!pc->name)
                return NGX_ERROR;
        *pc->name = ctx->peer;
        return NGX_OK;
}

static int client_left(ngx_http_request_t *r)
{
        return r->connection->error || r->headers_out.status == NGX_HTTP_CLIENT_CLOSED_REQUEST;
}

/* The answer broke off. nginx has begun to pass it on, so it does not count a failed peer. */
static int broke_off(ngx_peer_connection_t *pc, ngx_http_upstream_t *u)
{
        ngx_event_t *read = pc->connection ? pc->connection->read : NULL;

        return read && (read->error || (read->eof && u->length > 0));
}

int sublet_is_stale(const sublet_ctx_t *ctx, const ngx_peer_connection_t *pc, nsec now)
{
        return pc->cached && now - ctx->decided < STALE_WITHIN;
}

static enum answer failed_as(const sublet_ctx_t *ctx, ngx_peer_connection_t *pc, nsec now)
{
        ngx_http_upstream_t *u = ctx->request->upstream;
        ngx_connection_t *c = pc->connection;

        /* Also before the request is sent: of a reset that nginx has not seen yet, connecting tells. */
        if (!u->headers_in.status_n && sublet_is_stale(ctx, pc, now))
                return ANSWER_STALE;
        if (!u->request_sent)
                return ANSWER_REFUSED;
        if (c && (c->read->timedout || c->write->timedout))
                return ANSWER_SILENT;
        return ANSWER_BROKEN;
}

static enum answer how_it_ended(const sublet_ctx_t *ctx, ngx_peer_connection_t *pc, ngx_uint_t state, nsec now)
{
        if (client_left(ctx->request))
                return ANSWER_LEFT;
        if (ctx->answer == ANSWER_GOOD)
                return sublet_sequel_is_cut(ctx) || broke_off(pc, ctx->request->upstream) ? ANSWER_CUT : ANSWER_GOOD;
        if (ctx->answer == ANSWER_NONE && state & NGX_PEER_FAILED)
                return failed_as(ctx, pc, now);
        return ctx->answer;
}

/* The second error of one request is held to be the request's: a bad one must not put all replicas out. */
static int is_blamed(sublet_ctx_t *ctx, enum answer answer)
{
        if (answer != ANSWER_ERROR)
                return 1;
        return ctx->n_errors++ == 0;
}

static void note_end(sublet_ctx_t *ctx, enum answer answer, nsec now)
{
        enum answer_breaker breaker = answer_meaning(answer)->breaker;

        if (ctx->at < 0)
                return;
        if (is_blamed(ctx, answer) && pool_answered(ctx->pool, ctx->at, answer, now))
                sublet_ring();
        if (breaker != BREAKER_COUNTS && breaker != BREAKER_TRIPS && answer != ANSWER_MOVED && answer != ANSWER_ABSENT)
                return;
        ctx->query.tried |= 1ull << ctx->at;
        ctx->n_failed += breaker == BREAKER_COUNTS;
}

static int may_go_on(sublet_ctx_t *ctx, enum answer answer, nsec now)
{
        enum answer_retry retry = answer_meaning(answer)->retry;

        if (ctx->is_given_up)
                return 0;
        if (ctx->is_bought || retry == RETRY_FREE)
                return 1;
        return retry == RETRY_BOUGHT && sublet_may_buy(ctx, now);
}

static void free_peer(ngx_peer_connection_t *pc, void *data, ngx_uint_t state)
{
        sublet_ctx_t *ctx = data;
        nsec now = clock_now();
        enum answer answer;

        if (ctx->is_waiting) {
                ctx->is_waiting = 0;
                sublet_unpark(ctx);
                return;
        }
        answer = how_it_ended(ctx, pc, state, now);
        ctx->is_cut = answer == ANSWER_CUT || answer == ANSWER_LEFT;
        note_end(ctx, answer, now);
        sublet_release(ctx);
        sublet_sequel_leave(ctx);
        if (!(state & NGX_PEER_FAILED))
                return;
        pc->tries = may_go_on(ctx, answer, now) ? TRIES : 0;
        if (pc->tries)
                atomic_fetch_add(&ctx->pool->retries, 1);
}

/* ---- nginx's hooks --------------------------------------------------------------------------------------- */

/* Left NULL, these crash nginx with https:// replicas. */
static ngx_int_t set_session(ngx_peer_connection_t *pc, void *data)
{
        (void)pc;
        (void)data;
        return NGX_OK;
}

static void save_session(ngx_peer_connection_t *pc, void *data)
{
        (void)pc;
        (void)data;
}

static ngx_int_t init_peer(ngx_http_request_t *r, ngx_http_upstream_srv_conf_t *us)
{
        sublet_ctx_t *ctx = sublet_ctx(r);
        ngx_peer_connection_t *pc = &r->upstream->peer;

        (void)us;
        if (!ctx) {
                ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "proxy_pass to a sublet pool without sublet_route");
                return NGX_ERROR;
        }
        sublet_reply_wrap(ctx);
        pc->data = ctx;
        pc->get = get_peer;
        pc->free = free_peer;
        pc->tries = TRIES;
        pc->set_session = set_session;
        pc->save_session = save_session;
        return NGX_OK;
}

ngx_int_t sublet_init_upstream(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
        (void)cf;
        us->peer.init = init_peer;
        return NGX_OK;
}
