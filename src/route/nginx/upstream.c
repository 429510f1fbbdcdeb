/* SPDX-License-Identifier: Apache-2.0 */
/* The chosen replica as nginx's peer, retries, and the first byte of the answer. */
#include "route/nginx/module.h"

static ngx_http_output_body_filter_pt next_body_filter;

static ngx_int_t get_peer(ngx_peer_connection_t *pc, void *data)
{
        sublet_ctx_t *ctx = data;

        if (ctx->at < 0 && sublet_decide(ctx, 1) != NGX_DECLINED)
                return NGX_BUSY; /* a retry cannot be held: NGX_AGAIN here would crash nginx */
        ctx->n_tries++;
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

/* The replica had closed an idle connection before it was used again: that says nothing about the replica. nginx does
 * not count this try either. */
static int was_stale(ngx_peer_connection_t *pc, ngx_http_upstream_t *u, ngx_uint_t state)
{
        return state & NGX_PEER_FAILED && pc->cached && !u->headers_in.status_n &&
               !(pc->connection && pc->connection->read->timedout);
}

static void free_peer(ngx_peer_connection_t *pc, void *data, ngx_uint_t state)
{
        sublet_ctx_t *ctx = data;
        ngx_http_request_t *r = ctx->request;
        int is_stale = was_stale(pc, r->upstream, state);

        if (is_stale || client_left(r)) {
                ; /* nothing is learned */
        } else if (ctx->at >= 0 && (state & NGX_PEER_FAILED || broke_off(pc, r->upstream))) {
                if (pool_failed(ctx->pool, ctx->at, !r->upstream->request_sent, clock_now()))
                        sublet_ring();
                ctx->query.tried |= 1ull << ctx->at;
        } else if (ctx->at >= 0) {
                pool_worked(ctx->pool, ctx->at);
        }
        sublet_release(ctx);
        if (pc->tries)
                pc->tries--;
        if (pc->tries && state & NGX_PEER_FAILED && !is_stale && !pool_may_retry(ctx->pool))
                pc->tries = 0;
}

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
        pc->data = ctx;
        pc->get = get_peer;
        pc->free = free_peer;
        pc->tries = 3;
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

/* ---- the answer ------------------------------------------------------------------------------------- */

/* Server-sent events end with an empty line, about one per token. An event that is cut there is not counted. */
static void count_events(sublet_ctx_t *ctx, const u_char *at, const u_char *end)
{
        while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
                ctx->n_events += at + 1 < end && at[1] == '\n';
                at += 2;
        }
}

static ngx_int_t body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
        sublet_ctx_t *ctx = r == r->main ? ngx_http_get_module_ctx(r, ngx_http_sublet_module) : NULL;

        if (ctx && ctx->at >= 0)
                for (ngx_chain_t *l = in; l; l = l->next) {
                        if (ngx_buf_size(l->buf) <= 0)
                                continue;
                        sublet_first_byte(ctx);
                        if (ctx->is_stream && ngx_buf_in_memory(l->buf))
                                count_events(ctx, l->buf->pos, l->buf->last);
                }
        return next_body_filter(r, in);
}

void sublet_filter_init(void)
{
        next_body_filter = ngx_http_top_body_filter;
        ngx_http_top_body_filter = body_filter;
}
