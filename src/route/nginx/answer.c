/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the router itself: errors in the API's form, and the models of all replicas. */
#include "route/nginx/module.h"

static const struct {
        const char *code, *type, *message;
        ngx_uint_t status;
} REFUSALS[] = {
        { "invalid_json", "invalid_request_error", "The body is not a valid JSON object.", 400 },
        { "invalid_value", "invalid_request_error", "A field has a value of the wrong type.", 400 },
        { "compressed_body", "invalid_request_error", "The body is compressed. Send it as it is.", 415 },
        { "body_timeout", "invalid_request_error", "The body did not come in time.", 408 },
        { "model_required", "invalid_request_error", "You must provide a model parameter.", 400 },
        { "invalid_api_key", "authentication_error", "This API key may not do this.", 401 },
        { "unknown_endpoint", "invalid_request_error", "Clients have no endpoint at this path.", 404 },
        { "method_not_allowed", "invalid_request_error", "This endpoint does not take this method.", 405 },
        { "model_not_found", "invalid_request_error", "No replica serves this model.", 404 },
        { "rate_limited", "rate_limit_error", "Too many requests. Try again later.", 429 },
        { "queue_full", "rate_limit_error", "All replicas are busy and the queue is full. Try again later.", 429 },
        { "no_replica", "server_error", "No replica of this model is available.", 503 },
        { "deadline", "server_error", "No replica became free within the time a request is held.", 503 },
        { "replica_failed", "server_error", "The replica failed before it answered.", 502 },
};

enum {
        N_REFUSALS = sizeof(REFUSALS) / sizeof(REFUSALS[0]),
};

ngx_int_t sublet_send(ngx_http_request_t *r, ngx_uint_t status, const char *type, u_char *text, size_t size)
{
        ngx_buf_t *b = ngx_calloc_buf(r->pool);
        ngx_chain_t out = { .buf = b };
        ngx_int_t rc;

        if (!b)
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
        r->headers_out.status = status;
        r->headers_out.content_length_n = (off_t)size;
        r->headers_out.content_type.data = (u_char *)type;
        r->headers_out.content_type.len = r->headers_out.content_type_len = ngx_strlen(type);
        b->pos = text;
        b->last = text + size;
        b->memory = size > 0;
        b->last_buf = r == r->main;
        b->last_in_chain = 1;
        rc = ngx_http_send_header(r);
        if (rc == NGX_ERROR || rc > NGX_OK || r->header_only)
                return rc;
        return ngx_http_output_filter(r, &out);
}

/* Of the Anthropic API, whose errors say so. */
static int is_messages(const ngx_http_request_t *r)
{
        static const char path[] = "/v1/messages";

        return r->uri.len >= sizeof(path) - 1 && ngx_strncmp(r->uri.data, path, sizeof(path) - 1) == 0;
}

static ngx_int_t send_error(ngx_http_request_t *r, ngx_uint_t status, const char *type, const char *code,
                            const char *message)
{
        enum {
                ROOM = 512,
        };
        u_char *text = ngx_pnalloc(r->pool, ROOM), *end;

        if (!text)
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
        end = ngx_snprintf(text, ROOM,
                           "{%s\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}\n",
                           is_messages(r) ? "\"type\":\"error\"," : "", message, type, code);
        return sublet_send(r, status, "application/json", text, (size_t)(end - text));
}

ngx_uint_t sublet_retry_after(struct pool *pool)
{
        double work = 0, rate = 0;
        nsec now = clock_now();

        for (int i = 0; i < POOL_REPLICAS; i++) {
                struct pool_replica *replica = &pool->replicas[i];

                if (replica->slot_state != POOL_USED || pool_state(pool, i, now) != PICK_UP)
                        continue;
                work += rate_backlog(&replica->rate, now);
                rate += rate_now(&replica->rate);
        }
        return queue_retry_after(work, rate);
}

static void retry_after(ngx_http_request_t *r, const sublet_ctx_t *ctx)
{
        ngx_table_elt_t *h = ngx_list_push(&r->headers_out.headers);
        u_char *text = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
        ngx_uint_t n = (ngx_uint_t)((ctx->retry_after + NSEC_PER_SEC - 1) / NSEC_PER_SEC);

        if (!h || !text)
                return;
        h->hash = 1;
        ngx_str_set(&h->key, "Retry-After");
        h->value.data = text;
        h->value.len = (size_t)(ngx_sprintf(text, "%ui", n ? n : sublet_retry_after(ctx->pool)) - text);
}

ngx_int_t sublet_refuse(ngx_http_request_t *r)
{
        sublet_ctx_t *ctx = sublet_ctx(r);
        int i = 0;

        if (!ctx || !ctx->refusal)
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
        while (i < N_REFUSALS - 1 && ngx_strcmp(REFUSALS[i].code, ctx->refusal) != 0)
                i++;
        if (REFUSALS[i].status == 429 || REFUSALS[i].status == 503)
                retry_after(r, ctx);
        r->err_status = r->err_status ? REFUSALS[i].status : 0;
        return send_error(r, REFUSALS[i].status, REFUSALS[i].type, REFUSALS[i].code,
                          *ctx->detail ? ctx->detail : REFUSALS[i].message);
}

/* A client that speaks HTTP/2 without TLS begins so (RFC 9113, 3.4). nginx has no request line then. */
static int is_http2(const ngx_http_request_t *r)
{
        static const char preface[] = "PRI * HTTP/2.0";

        return !r->uri_start && r->request_start && r->header_in && !r->stream &&
               r->header_in->last - r->request_start >= (ptrdiff_t)sizeof(preface) - 1 &&
               ngx_memcmp(r->request_start, preface, sizeof(preface) - 1) == 0;
}

/* On a port of TLS. nginx has a status of its own for it, and makes 400 of that before we are asked. */
static int is_without_tls(const ngx_http_request_t *r)
{
        return r->http_connection && r->http_connection->ssl && !r->connection->ssl;
}

/* Errors that nginx itself found, by status; the last two are for any other of 5xx and of 4xx. */
ngx_int_t sublet_error(ngx_http_request_t *r)
{
        static const struct {
                ngx_uint_t status;
                const char *type, *code, *message;
        } rows[] = {
                { 401, "authentication_error", "invalid_api_key", "This API key may not do this." },
                { 403, "authentication_error", "invalid_api_key", "This API key may not do this." },
                { 404, "invalid_request_error", "not_found", "There is nothing at this path." },
                { 413, "invalid_request_error", "body_too_large", "The body is larger than this server takes." },
                { 429, "rate_limit_error", "rate_limited", "Too many requests. Try again later." },
                { 502, "server_error", "replica_failed", "The replica failed before it answered." },
                { 504, "server_error", "replica_failed", "The replica failed before it answered." },
                { 501, "invalid_request_error", "not_implemented", "A part of HTTP that this server does not have." },
                { 500, "server_error", "error", "The server failed." },
                { 400, "invalid_request_error", "bad_request", "The head of this request is malformed or too large." },
        };
        ngx_uint_t status = r->err_status ? r->err_status : NGX_HTTP_BAD_REQUEST;
        size_t i = 0, last = sizeof(rows) / sizeof(rows[0]) - 1;
        sublet_ctx_t *ctx = sublet_ctx(r);

        if (ctx && ctx->refusal) /* after tries that failed */
                return sublet_refuse(r);
        if (is_http2(r))
                return send_error(r, NGX_HTTP_BAD_REQUEST, "invalid_request_error", "http2_without_tls",
                                  "HTTP/2 is spoken with TLS only. Use HTTP/1.1 here, or the port of tls_listen.");
        if (is_without_tls(r))
                return send_error(r, NGX_HTTP_BAD_REQUEST, "invalid_request_error", "tls_required",
                                  "This port speaks TLS only: use https.");
        while (i < last && rows[i].status != status && !(rows[i].status == 500 && status >= 500))
                i++;
        return send_error(r, status, rows[i].type, rows[i].code, rows[i].message);
}

/* ---- models ------------------------------------------------------------------------------------------ */

static int is_known(const uint64_t *hashes, size_t n, uint64_t hash)
{
        for (size_t i = 0; i < n; i++)
                if (hashes[i] == hash)
                        return 1;
        return 0;
}

/* "/v1/models/NAME"; 0: the list. */
static size_t asked_model(const ngx_http_request_t *r, const u_char **ret)
{
        static const char list[] = "/v1/models/";

        if (r->uri.len < sizeof(list) || ngx_strncmp(r->uri.data, list, sizeof(list) - 1) != 0)
                return 0;
        *ret = r->uri.data + sizeof(list) - 1;
        return r->uri.len - (sizeof(list) - 1);
}

/* A name that is served has no character that JSON would escape. */
static ngx_int_t send_model(ngx_http_request_t *r, const struct pool *pool, const u_char *name, size_t size)
{
        uint64_t hash = pool_model_hash((const char *)name, size);
        u_char *text = ngx_pnalloc(r->pool, size + 128), *end;
        int is_there = 0;

        for (int i = 0; i < POOL_REPLICAS; i++)
                for (int k = 0; pool->replicas[i].slot_state == POOL_USED && k < POOL_MODELS; k++)
                        is_there |= pool->replicas[i].models[k] == hash;
        if (!is_there)
                return send_error(r, 404, "invalid_request_error", "model_not_found", "No replica serves this model.");
        if (!text)
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
        end = ngx_sprintf(text, "{\"id\":\"%*s\",\"object\":\"model\",\"created\":0,\"owned_by\":\"sublet\"}\n", size,
                          name);
        return sublet_send(r, 200, "application/json", text, (size_t)(end - text));
}

ngx_int_t sublet_models(ngx_http_request_t *r)
{
        enum {
                ROOM = POOL_REPLICAS * POOL_MODELS * (MODEL_NAME + 128),
        };
        struct pool *pool = ((sublet_loc_t *)ngx_http_get_module_loc_conf(r, ngx_http_sublet_module))->models->pool;
        u_char *text = ngx_pnalloc(r->pool, ROOM), *at;
        static uint64_t seen[POOL_REPLICAS * POOL_MODELS];
        static struct pool_config config;
        const u_char *name;
        size_t n = 0, size;

        if (!text || ngx_http_discard_request_body(r) != NGX_OK)
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
        size = asked_model(r, &name);
        if (size)
                return send_model(r, pool, name, size);
        at = ngx_snprintf(text, ROOM, "{\"object\":\"list\",\"data\":[");
        for (int i = 0; i < POOL_REPLICAS; i++) {
                if (pool->replicas[i].slot_state != POOL_USED || !pool_read(pool, i, &config))
                        continue;
                for (uint32_t k = 0; k < config.n_models; k++) {
                        uint64_t hash = pool->replicas[i].models[k];

                        if (is_known(seen, n, hash))
                                continue;
                        at = ngx_snprintf(
                                at, (size_t)(text + ROOM - at),
                                "%s{\"id\":\"%s\",\"object\":\"model\",\"created\":0,\"owned_by\":\"sublet\"}",
                                n ? "," : "", config.models[k]);
                        seen[n++] = hash;
                }
        }
        at = ngx_snprintf(at, (size_t)(text + ROOM - at), "]}\n");
        return sublet_send(r, 200, "application/json", text, (size_t)(at - text));
}
