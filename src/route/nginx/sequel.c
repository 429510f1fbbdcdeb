/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream that goes on at another replica where its own broke off, if the client allows it (X-Sublet-Resume).
 *
 * To nginx this is one more try of the same request, with another body. Its filter of unbuffered answers is wrapped, so
 * that only whole events are passed on; so is the reading of the replica's connection, whose end is kept from nginx.
 * When all that came was sent, the request is made anew and given back to nginx where it waits for a head, as after a
 * timeout: choosing, holding, judging and giving up are then those of any other try. The second head is dropped.
 *
 * Invariants:
 * 1. While another replica is tried, nginx holds that no head was sent, else it would not send the request. Whatever
 *    ends the request sets that right first (finalize), so that a client that has a part gets no error page after it.
 * 2. The bytes that nginx was given are in the sequel's buffer. They are gone when nginx has none that are busy.
 */
#include "route/nginx/module.h"

#include <sys/mman.h>

enum {
        ROOM = 16 * 1024, /* of an answer, at most on its way to the client: nginx's buffer is smaller */
};

static ngx_http_output_header_filter_pt next_header_filter;

/* ---- the answer -------------------------------------------------------------------------------------- */

static ngx_int_t give(ngx_http_request_t *r, sublet_sequel_t *s)
{
        ngx_http_upstream_t *u = r->upstream;
        ngx_chain_t *cl, **last = &u->out_bufs;
        const char *at;
        size_t size;

        sequel_take(&s->stream, &at, &size);
        if (!size)
                return NGX_OK;
        cl = ngx_chain_get_free_buf(r->pool, &u->free_bufs);
        if (!cl)
                return NGX_ERROR;
        while (*last)
                last = &(*last)->next;
        *last = cl;
        ngx_memzero(cl->buf, sizeof(*cl->buf));
        cl->buf->memory = cl->buf->flush = 1;
        cl->buf->tag = u->output.tag;
        cl->buf->pos = (u_char *)(uintptr_t)at;
        cl->buf->last = cl->buf->pos + size;
        return NGX_OK;
}

/* Takes over what nginx would send. What no longer fits follows as it is. */
static ngx_int_t pass(ngx_http_request_t *r, sublet_sequel_t *s)
{
        ngx_http_upstream_t *u = r->upstream;
        ngx_chain_t *in = u->out_bufs, **last = &u->out_bufs, *next;

        u->out_bufs = NULL;
        for (; in && sequel_feed(&s->stream, in->buf->pos, (size_t)(in->buf->last - in->buf->pos)); in = next) {
                next = in->next;
                in->next = u->free_bufs;
                u->free_bufs = in;
        }
        if (give(r, s) != NGX_OK)
                return NGX_ERROR;
        while (*last)
                last = &(*last)->next;
        *last = in;
        return NGX_OK;
}

static ngx_int_t filter(void *data, ssize_t bytes)
{
        ngx_http_request_t *r = data;
        sublet_sequel_t *s = sublet_ctx(r)->sequel;
        ngx_http_upstream_t *u = r->upstream;
        ngx_int_t rc = s->inner_filter(data, bytes);

        if (rc != NGX_ERROR && !s->stream.is_lost) {
                if (!u->busy_bufs)
                        sequel_gone(&s->stream);
                rc = pass(r, s);
        }
        if (u->length == 0) { /* it is whole, and others may get the connection */
                s->stream.is_lost = 1;
                u->peer.connection->recv = s->inner_recv;
                return rc == NGX_ERROR ? rc : give(r, s);
        }
        return rc;
}

/* ---- where it breaks off ------------------------------------------------------------------------------- */

static int may_go_on(sublet_ctx_t *ctx)
{
        ngx_http_request_t *r = ctx->request;

        if (!sequel_is_open(&ctx->sequel->stream) || r->connection->error || !r->upstream->request_body_sent ||
            !sublet_may_buy(ctx, clock_now()))
                return 0;
        ctx->is_bought = 1;
        return 1;
}

static ssize_t receive(ngx_connection_t *c, u_char *buf, size_t size)
{
        ngx_http_request_t *r = c->data;
        sublet_sequel_t *s = sublet_ctx(r)->sequel;
        ssize_t n = s->is_cut ? 0 : s->inner_recv(c, buf, size);

        if (n > 0 || n == NGX_AGAIN)
                return n;
        if (!s->is_cut && !may_go_on(sublet_ctx(r))) {
                s->stream.is_lost = 1;
                (void)give(r, s);
                return n;
        }
        s->is_cut = 1;
        c->read->eof = c->read->error = 0;
        c->read->ready = 1; /* nginx comes again when the client has taken more */
        if (!r->upstream->busy_bufs && !r->upstream->out_bufs && !r->connection->buffered && !s->cut.posted) {
                ngx_post_event(&s->cut, &ngx_posted_events);
        }
        return NGX_AGAIN;
}

static ngx_int_t ask_anew(sublet_ctx_t *ctx)
{
        ngx_http_request_t *r = ctx->request;
        size_t size, n;
        void *map;
        char *body = sublet_whole_body(r, &size, &map), *text;
        ngx_chain_t *cl = ngx_alloc_chain_link(r->pool);

        sequel_cut(&ctx->sequel->stream);
        text = body && cl ? sequel_body(&ctx->sequel->stream, body, size, &n) : NULL;
        if (map)
                (void)munmap(map, size);
        cl = text ? cl : NULL;
        if (cl) {
                cl->buf = ngx_create_temp_buf(r->pool, n);
                cl->next = NULL;
        }
        if (cl && cl->buf) {
                cl->buf->last = ngx_cpymem(cl->buf->pos, text, n);
                r->upstream->request_bufs = cl;
                r->headers_in.content_length_n = (off_t)n;
        }
        free(text);
        return cl && cl->buf ? r->upstream->create_request(r) : NGX_ERROR;
}

static void on_cut(ngx_event_t *event)
{
        sublet_ctx_t *ctx = event->data;
        sublet_sequel_t *s = ctx->sequel;
        ngx_http_request_t *r = ctx->request;
        ngx_http_upstream_t *u = r->upstream;
        ngx_connection_t *c = r->connection;

        if (!s->is_cut || !u->peer.connection)
                return;
        ngx_http_set_log_request(c->log, r);
        if (ask_anew(ctx) == NGX_OK) {
                s->is_second = 1;
                u->header_sent = 0;
                u->read_event_handler = s->await_head;
                r->write_event_handler = s->check_client;
                sublet_quiet(ctx);
                u->peer.connection->read->timedout = 1;
        } else { /* nginx sees the end of the connection after all */
                s->is_cut = 0;
                s->stream.is_lost = 1;
        }
        u->read_event_handler(r, u); /* r may be freed here */
        ngx_http_run_posted_requests(c);
}

/* ---- nginx's hooks ------------------------------------------------------------------------------------- */

static ngx_int_t filter_init(void *data)
{
        ngx_http_request_t *r = data;
        sublet_sequel_t *s = sublet_ctx(r)->sequel;
        ngx_http_upstream_t *u = r->upstream;
        ngx_int_t rc = s->inner_init(data);

        if (rc != NGX_OK || u->buffering || u->length == 0 || u->headers_in.status_n != NGX_HTTP_OK ||
            s->stream.is_lost)
                return rc;
        s->inner_filter = u->input_filter;
        u->input_filter = filter;
        s->inner_recv = u->peer.connection->recv;
        u->peer.connection->recv = receive;
        return NGX_OK;
}

static void finalize(ngx_http_request_t *r, ngx_int_t rc)
{
        sublet_sequel_t *s = sublet_ctx(r)->sequel;

        if (s->is_second)
                r->upstream->header_sent = 1;
        s->inner_finalize(r, rc);
}

void sublet_sequel_wrap(sublet_ctx_t *ctx)
{
        ngx_http_upstream_t *u = ctx->request->upstream;
        sublet_sequel_t *s = ctx->sequel;

        if (!s)
                return;
        s->inner_init = u->input_filter_init;
        s->inner_finalize = u->finalize_request;
        u->input_filter_init = filter_init;
        u->finalize_request = finalize;
}

void sublet_sequel_head(ngx_http_request_t *r)
{
        sublet_sequel_t *s = sublet_ctx(r)->sequel;

        if (!s)
                return;
        s->await_head = r->upstream->read_event_handler;
        s->check_client = r->write_event_handler;
}

int sublet_sequel_fits(const sublet_ctx_t *ctx, int is_events, int is_encoded)
{
        const ngx_http_upstream_t *u = ctx->request->upstream;

        if (!ctx->sequel || !ctx->sequel->is_second)
                return 1;
        return u->headers_in.status_n == NGX_HTTP_OK && is_events && !is_encoded && !u->headers_in.x_accel_redirect;
}

static ngx_int_t header_filter(ngx_http_request_t *r)
{
        sublet_ctx_t *ctx = r == r->main ? ngx_http_get_module_ctx(r, ngx_http_sublet_module) : NULL;

        if (!ctx || !ctx->sequel || !ctx->sequel->is_second)
                return next_header_filter(r);
        r->header_sent = 1;
        return NGX_OK;
}

void sublet_sequel_init(void)
{
        next_header_filter = ngx_http_top_header_filter;
        ngx_http_top_header_filter = header_filter;
}

/* ---- a request that may have one ------------------------------------------------------------------------- */

void sublet_sequel_begin(sublet_ctx_t *ctx)
{
        ngx_http_request_t *r = ctx->request;
        sublet_sequel_t *s;
        uint32_t max_tokens;
        size_t size;
        void *map;
        char *body;

        if (!ctx->wants_sequel || !ctx->is_stream || ngx_strcmp(ctx->endpoint->path, "/v1/completions") != 0)
                return;
        body = sublet_whole_body(r, &size, &map);
        s = body && sequel_may(body, size, &max_tokens) ? ngx_pcalloc(r->pool, sizeof(*s)) : NULL;
        if (map)
                (void)munmap(map, size);
        if (!s || sequel_init(&s->stream, ROOM) < 0)
                return;
        s->stream.max_tokens = max_tokens;
        s->cut = (ngx_event_t){ .handler = on_cut, .data = ctx, .log = r->connection->log };
        ctx->sequel = s;
}

void sublet_sequel_end(sublet_ctx_t *ctx)
{
        if (!ctx->sequel)
                return;
        if (ctx->sequel->cut.posted) {
                ngx_delete_posted_event(&ctx->sequel->cut);
        }
        sequel_done(&ctx->sequel->stream);
}

int sublet_sequel_is_cut(const sublet_ctx_t *ctx)
{
        return ctx->sequel && ctx->sequel->is_cut;
}

/* What was given is computed again. */
void sublet_sequel_leave(sublet_ctx_t *ctx)
{
        sublet_sequel_t *s = ctx->sequel;
        uint32_t n;

        if (!s || !s->is_cut)
                return;
        n = (uint32_t)(s->stream.n_text / PICK_BYTES_PER_TOKEN);
        ctx->query.tokens += n - s->n_added;
        s->n_added = n;
        s->is_cut = 0;
}
