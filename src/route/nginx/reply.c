/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a replica sends back, before nginx passes it on. The proxy module's reader of heads is wrapped: a head is kept
 * back until the first byte of the body is there, so that it can be thrown away and the request go elsewhere. What an
 * answer means is said in route/answers.def.
 */
#include "route/nginx/module.h"

enum {
        FAILED_MAX = 4,   /* tries of one request that a replica may fail; more, and the request is what kills them */
        BUSY_SECONDS = 1, /* without a Retry-After */
        BUSY_SECONDS_MAX = 30,
};

static ngx_http_output_body_filter_pt next_body_filter;

int sublet_may_buy(sublet_ctx_t *ctx, nsec now)
{
        return ctx->n_failed < FAILED_MAX && pool_may_retry(ctx->pool, now);
}

static ngx_int_t process_header(ngx_http_request_t *r);
static ngx_int_t reinit_request(ngx_http_request_t *r);

/* ---- the head ------------------------------------------------------------------------------------------ */

static int key_is(const ngx_table_elt_t *h, const char *name, size_t size)
{
        return h->key.len == size && ngx_strncasecmp(h->key.data, (u_char *)name, size) == 0;
}

static ngx_table_elt_t *find_header(ngx_http_upstream_t *u, const char *name)
{
        size_t size = ngx_strlen(name);

        for (ngx_list_part_t *part = &u->headers_in.headers.part; part; part = part->next)
                for (ngx_uint_t i = 0; i < part->nelts; i++)
                        if (key_is(&((ngx_table_elt_t *)part->elts)[i], name, size))
                                return &((ngx_table_elt_t *)part->elts)[i];
        return NULL;
}

/* Seconds, or a date. */
static nsec busy_for(ngx_http_upstream_t *u)
{
        ngx_table_elt_t *h = find_header(u, "Retry-After");
        ngx_int_t n = h ? ngx_atoi(h->value.data, h->value.len) : NGX_ERROR;
        time_t at = h && n == NGX_ERROR ? ngx_parse_http_time(h->value.data, h->value.len) : NGX_ERROR;

        if (at != NGX_ERROR)
                n = at - ngx_time();
        n = n == NGX_ERROR || n < BUSY_SECONDS ? BUSY_SECONDS : n;
        return (nsec)ngx_min(n, BUSY_SECONDS_MAX) * NSEC_PER_SEC;
}

static int has_no_body(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
        return r->method == NGX_HTTP_HEAD || u->headers_in.content_length_n == 0 || u->headers_in.status_n < 200 ||
               u->headers_in.status_n == NGX_HTTP_NO_CONTENT;
}

/* What a model was asked for. */
static int must_say(ngx_http_request_t *r)
{
        sublet_ctx_t *ctx = sublet_ctx(r);

        return r->method == NGX_HTTP_POST && ctx->endpoint && ctx->endpoint->model == ENDPOINT_NEEDED;
}

static struct answer_body body_of(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
        static const char events[] = "text/event-stream";
        ngx_table_elt_t *type = u->headers_in.content_type;

        return (struct answer_body){ .is_chunked = u->headers_in.chunked,
                                     .must_say = must_say(r),
                                     .is_events = type && type->value.len >= sizeof(events) - 1 &&
                                                  ngx_strncasecmp(type->value.data, (u_char *)events,
                                                                  sizeof(events) - 1) == 0 };
}

/* By status and, where it decides, by what is there of the body. */
static enum answer answer_so_far(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
        unsigned int status = (unsigned int)u->headers_in.status_n;
        int has_retry_after = status == NGX_HTTP_SERVICE_UNAVAILABLE && find_header(u, "Retry-After");
        enum answer answer = answer_of_status(status, has_retry_after);

        if (answer == ANSWER_GOOD && u->headers_in.content_length_n == 0 && must_say(r))
                return ANSWER_EMPTY;
        if (answer == ANSWER_GOOD && (status == NGX_HTTP_NO_CONTENT || status == 205) && must_say(r))
                return ANSWER_EMPTY;
        if (answer != ANSWER_GOOD || has_no_body(r, u))
                return answer;
        return answer_begun(u->buffer.pos, (size_t)(u->buffer.last - u->buffer.pos), body_of(r, u));
}

/* ---- the verdict ----------------------------------------------------------------------------------------- */

static int goes_elsewhere(sublet_ctx_t *ctx, nsec now)
{
        struct pool_request others = ctx->query;

        switch (answer_meaning(ctx->answer)->retry) {
        case RETRY_FREE: /* of a busy one: there, or held */
                others.tried |= 1ull << ctx->at;
                return ctx->answer == ANSWER_ABSENT ? pool_has_other(ctx->pool, &others, now) :
                                                      now < ctx->item.deadline;
        case RETRY_BOUGHT:
                others.tried |= 1ull << ctx->at;
                return pool_has_other(ctx->pool, &others, now) && sublet_may_buy(ctx, now);
        default:
                return 0;
        }
}

/* A replica's own 429 that is passed on says when to come again, as the router's do. */
static void say_when(ngx_http_request_t *r, sublet_ctx_t *ctx)
{
        static ngx_str_t name = ngx_string("Retry-After"), lowcase = ngx_string("retry-after");
        ngx_http_upstream_t *u = r->upstream;
        ngx_table_elt_t *h;
        u_char *text;

        if (u->headers_in.status_n != NGX_HTTP_TOO_MANY_REQUESTS || find_header(u, "Retry-After"))
                return;
        text = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
        h = text ? ngx_list_push(&u->headers_in.headers) : NULL;
        if (!h)
                return;
        ngx_memzero(h, sizeof(*h));
        h->hash = ngx_hash_key(lowcase.data, lowcase.len);
        h->key = name;
        h->lowcase_key = lowcase.data;
        h->value.data = text;
        h->value.len = (size_t)(ngx_sprintf(text, "%ui", sublet_retry_after(ctx->pool)) - text);
}

/* Some servers say 408 on a connection that was idle, before they close it: it is no answer to what was sent since. A
 * second one for the same request is no such chance. */
static int is_of_before(sublet_ctx_t *ctx, const ngx_http_upstream_t *u, nsec now)
{
        if (u->headers_in.status_n != NGX_HTTP_REQUEST_TIME_OUT || !u->headers_in.connection_close ||
            ctx->was_of_before || !sublet_is_stale(ctx, &u->peer, now))
                return 0;
        ctx->was_of_before = 1;
        return 1;
}

/* NGX_AGAIN: more of the body is wanted. NGX_HTTP_UPSTREAM_INVALID_HEADER: nginx takes the next peer. */
static ngx_int_t judge(ngx_http_request_t *r, sublet_ctx_t *ctx)
{
        ngx_http_upstream_t *u = r->upstream;
        enum answer answer = answer_so_far(r, u);
        nsec now;

        if (answer == ANSWER_NONE && u->buffer.last < u->buffer.end)
                return NGX_AGAIN;
        ctx->answer = answer == ANSWER_NONE ? ANSWER_GOOD : answer; /* pings have filled the buffer */
        if (ctx->is_stored && u->headers_in.status_n == NGX_HTTP_NOT_FOUND)
                ctx->answer = ANSWER_ABSENT;
        if (ctx->answer == ANSWER_GOOD &&
            !sublet_sequel_fits(ctx, body_of(r, u).is_events, find_header(u, "Content-Encoding") != NULL))
                ctx->answer = ANSWER_GARBLED;
        if (ctx->at < 0)
                return NGX_OK;
        if (ctx->answer == ANSWER_GOOD) {
                sublet_first_byte(ctx);
                sublet_session_begin(ctx);
                return NGX_OK;
        }
        now = clock_now();
        if (is_of_before(ctx, u, now))
                ctx->answer = ANSWER_STALE;
        if (ctx->answer == ANSWER_BUSY)
                pool_busy(ctx->pool, ctx->at, busy_for(u), now);
        if (!goes_elsewhere(ctx, now)) { /* the client gets the replica's own words, unless it has another's */
                say_when(r, ctx);
                return ctx->sequel && ctx->sequel->is_second ? NGX_ERROR : NGX_OK;
        }
        ctx->is_bought = 1;
        return NGX_HTTP_UPSTREAM_INVALID_HEADER;
}

/* An upgrade that nobody asked for: what follows is no HTTP. */
static int is_unasked(const sublet_ctx_t *ctx, ngx_http_upstream_t *u)
{
        return u->headers_in.status_n == NGX_HTTP_SWITCHING_PROTOCOLS &&
               (!ctx->endpoint || ctx->endpoint->body != ENDPOINT_SOCKET);
}

/* A head of 1xx is no answer: the next one is. nginx 1.22 would pass it on as one. */
static int is_interim(ngx_http_upstream_t *u)
{
        return u->headers_in.status_n >= 100 && u->headers_in.status_n < 200 &&
               u->headers_in.status_n != NGX_HTTP_SWITCHING_PROTOCOLS;
}

/* As nginx does it before another try, but for what is in the buffer. */
static ngx_int_t begin_head(ngx_http_request_t *r, sublet_ctx_t *ctx)
{
        ngx_http_upstream_t *u = r->upstream;

        ngx_memzero(&u->headers_in, sizeof(u->headers_in));
        u->headers_in.content_length_n = -1;
        u->headers_in.last_modified_time = -1;
        if (ngx_list_init(&u->headers_in.headers, r->pool, 8, sizeof(ngx_table_elt_t)) != NGX_OK ||
            ngx_list_init(&u->headers_in.trailers, r->pool, 2, sizeof(ngx_table_elt_t)) != NGX_OK)
                return NGX_ERROR;
        if (reinit_request(r) != NGX_OK || !ctx->inner_header)
                return NGX_ERROR;
        ctx->head_from = u->buffer.pos;
        return NGX_OK;
}

static ngx_int_t read_head(ngx_http_request_t *r, sublet_ctx_t *ctx)
{
        ngx_http_upstream_t *u = r->upstream;
        ngx_int_t rc = ctx->inner_header(r);

        if (u->process_header != process_header) { /* it goes on with another part of the head */
                ctx->inner_header = u->process_header;
                u->process_header = process_header;
        }
        return rc;
}

static ngx_int_t process_header(ngx_http_request_t *r)
{
        sublet_ctx_t *ctx = sublet_ctx(r);
        ngx_http_upstream_t *u = r->upstream;
        ngx_uint_t version = r->http_version;
        ngx_int_t rc;

        sublet_sequel_head(r);
        while (!ctx->has_head) {
                rc = read_head(r, ctx);
                if (rc == NGX_HTTP_UPSTREAM_INVALID_HEADER)
                        ctx->answer = ANSWER_GARBLED;
                if (rc != NGX_OK)
                        return rc;
                if (!u->headers_in.status_n || is_unasked(ctx, u)) { /* status 0: to nginx this is HTTP/0.9 */
                        r->http_version = version;
                        ctx->answer = ANSWER_GARBLED;
                        return NGX_HTTP_UPSTREAM_INVALID_HEADER;
                }
                ctx->has_head = !is_interim(u);
                if (!ctx->has_head && begin_head(r, ctx) != NGX_OK)
                        return NGX_ERROR;
        }
        rc = judge(r, ctx);
        if (rc == NGX_OK && ctx->sequel && ctx->sequel->is_second)
                r->header_sent = 0; /* nginx sends this one, too: up to our filter */
        return rc;
}

static ngx_int_t reinit_request(ngx_http_request_t *r)
{
        sublet_ctx_t *ctx = sublet_ctx(r);
        ngx_int_t rc = ctx->inner_reinit(r);

        ctx->inner_header = r->upstream->process_header;
        r->upstream->process_header = process_header;
        ctx->has_head = 0;
        ctx->head_from = NULL;
        return rc;
}

void sublet_reply_wrap(sublet_ctx_t *ctx)
{
        ngx_http_upstream_t *u = ctx->request->upstream;

        ctx->inner_header = u->process_header;
        ctx->inner_reinit = u->reinit_request;
        u->process_header = process_header;
        u->reinit_request = reinit_request;
        ctx->has_head = 0;
        ctx->head_from = NULL;
        sublet_sequel_wrap(ctx);
}

/* ---- the body ------------------------------------------------------------------------------------------- */

/* Server-sent events end with an empty line, about one per token. Lines end with \n or \r\n, and are cut anywhere. */
static void count_events(sublet_ctx_t *ctx, const u_char *at, const u_char *end)
{
        while (at < end) {
                if (!ctx->is_line_empty) {
                        at = memchr(at, '\n', (size_t)(end - at));
                        if (!at)
                                return;
                        ctx->is_line_empty = 1;
                        at++;
                        continue;
                }
                ctx->n_events += *at == '\n';
                ctx->is_line_empty = *at++ == '\r';
        }
}

static ngx_int_t body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
        sublet_ctx_t *ctx = r == r->main ? ngx_http_get_module_ctx(r, ngx_http_sublet_module) : NULL;

        if (ctx && ctx->at >= 0)
                sublet_limits_read(ctx, in);
        if (ctx && ctx->at >= 0 && ctx->is_stream)
                for (ngx_chain_t *l = in; l; l = l->next)
                        if (ngx_buf_in_memory(l->buf))
                                count_events(ctx, l->buf->pos, l->buf->last);
        return next_body_filter(r, in);
}

void sublet_filter_init(void)
{
        next_body_filter = ngx_http_top_body_filter;
        ngx_http_top_body_filter = body_filter;
        sublet_sequel_init();
}
