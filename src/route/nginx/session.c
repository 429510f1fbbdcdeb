/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session over a websocket whose key has a budget of tokens. nginx passes bytes both ways without a filter, so the
 * reading of both connections is wrapped: what the replica says of tokens is taken from the budget with each of its
 * messages, and while more is owed than a minute's budget nothing is read of the client. It is not refused: its
 * messages wait in its connection, and go on when that is paid back.
 */
#include "route/nginx/module.h"

static void read_session(sublet_ctx_t *ctx, const u_char *data, size_t size)
{
        sublet_session_t *s = ctx->session;
        uint64_t n;

        frames_feed(&s->frames, data, size);
        n = s->frames.usage.earlier;
        if (n > s->paid_tokens)
                tokens_settle(&ctx->allowance->tokens, ctx->key->tokens, 0, n - s->paid_tokens, clock_now());
        s->paid_tokens = n;
}

static ssize_t from_replica(ngx_connection_t *c, u_char *buf, size_t size)
{
        ngx_http_request_t *r = c->data;
        sublet_session_t *s = sublet_ctx(r)->session;
        ssize_t n = s->replica_recv(c, buf, size);

        if (n > 0)
                read_session(sublet_ctx(r), buf, (size_t)n);
        return n;
}

static ssize_t from_client(ngx_connection_t *c, u_char *buf, size_t size)
{
        ngx_http_request_t *r = c->data;
        sublet_ctx_t *ctx = sublet_ctx(r);
        sublet_session_t *s = ctx->session;
        nsec wait = r->upstream->peer.connection ? tokens_owed(&ctx->allowance->tokens, clock_now()) : 0;

        if (!wait || c->read->pending_eof || c->read->error) /* who has left is not waited for */
                return s->client_recv(c, buf, size);
        if (!s->paid.timer_set) {
                ngx_add_timer(&s->paid, (ngx_msec_t)(wait / NSEC_PER_MSEC) + 1);
        }
        return NGX_AGAIN;
}

static void on_paid(ngx_event_t *event)
{
        sublet_ctx_t *ctx = event->data;
        ngx_connection_t *c = ctx->request->connection;

        c->read->ready = 1;
        ngx_post_event(c->read, &ngx_posted_events);
}

/* The replica has agreed to it; what it said behind its head is in the buffer. */
void sublet_session_begin(sublet_ctx_t *ctx)
{
        ngx_http_request_t *r = ctx->request;
        ngx_http_upstream_t *u = r->upstream;
        sublet_session_t *s;

        if (u->headers_in.status_n != NGX_HTTP_SWITCHING_PROTOCOLS || !ctx->allowance || !ctx->key->tokens)
                return;
        s = ngx_pcalloc(r->pool, sizeof(*s));
        if (!s)
                return;
        ctx->session = s;
        frames_begin(&s->frames);
        s->paid = (ngx_event_t){ .handler = on_paid, .data = ctx, .log = r->connection->log };
        s->replica_recv = u->peer.connection->recv;
        u->peer.connection->recv = from_replica;
        s->client_recv = r->connection->recv;
        r->connection->recv = from_client;
        read_session(ctx, u->buffer.pos, (size_t)(u->buffer.last - u->buffer.pos));
}

void sublet_session_end(sublet_ctx_t *ctx)
{
        if (!ctx->session)
                return;
        ctx->request->connection->recv = ctx->session->client_recv;
        if (ctx->session->paid.timer_set) {
                ngx_del_timer(&ctx->session->paid);
        }
        ctx->session = NULL;
}
