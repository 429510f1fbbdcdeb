/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a request: its outcome is counted, and variables for the request log and headers show its decision. */
#include "route/nginx/module.h"

enum {
        NUMBER = 32, /* bytes, of the longest */
        SHOWN = 256, /* of a model's name */
};

static const ngx_str_t NAMES[] = {
        ngx_string("sublet_model"),    ngx_string("sublet_replica"),     ngx_string("sublet_reason"),
        ngx_string("sublet_prompt"),   ngx_string("sublet_matched"),     ngx_string("sublet_wait_ms"),
        ngx_string("sublet_first_ms"), ngx_string("sublet_expected_ms"), ngx_string("sublet_tries"),
        ngx_string("sublet_stream"),   ngx_string("sublet_decision_us"), ngx_string("sublet_session"),
};

enum variable { MODEL, REPLICA, REASON, PROMPT, MATCHED, WAIT, FIRST, EXPECTED, TRIES, STREAM, DECISION, SESSION };

/* What is there for as long as the request needs no room of its own. */
static ngx_int_t text_get(ngx_http_variable_value_t *v, const u_char *text, size_t size)
{
        v->data = (u_char *)(uintptr_t)text;
        v->len = (unsigned int)size & 0xfffffffu;
        v->valid = 1;
        v->no_cacheable = 0;
        v->not_found = 0;
        return NGX_OK;
}

static ngx_int_t word_get(ngx_http_variable_value_t *v, const char *text)
{
        return text_get(v, (const u_char *)text, ngx_strlen(text));
}

/* ---- numbers: a dozen for each request, and ngx_sprintf takes its time ------------------------------------ */

/* Before the byte `end`. Returns where it begins. */
static u_char *put_whole(u_char *end, uint64_t n)
{
        do
                *--end = (u_char)('0' + n % 10);
        while (n /= 10);
        return end;
}

static u_char *put_msec(u_char *end, nsec span)
{
        uint64_t usec = (uint64_t)(span < 0 ? -span : span) / NSEC_PER_USEC;

        for (int i = 0; i < 3; i++, usec /= 10)
                *--end = (u_char)('0' + usec % 10);
        *--end = '.';
        end = put_whole(end, usec);
        if (span < 0)
                *--end = '-';
        return end;
}

static u_char *put_session(u_char *end, uint64_t n)
{
        for (int i = 0; i < 16; i++, n >>= 4)
                *--end = (u_char) "0123456789abcdef"[n & 15];
        return end;
}

static u_char *put_number(const sublet_ctx_t *ctx, enum variable which, u_char *end)
{
        switch (which) {
        case PROMPT:
                return put_whole(end, ctx->query.tokens);
        case MATCHED:
                return put_whole(end, ctx->verdict.matched);
        case WAIT:
                return put_msec(end, ctx->held_for);
        case FIRST:
                return put_msec(end, ctx->first_at - ctx->arrived);
        case EXPECTED:
                return put_msec(end, (nsec)((ctx->verdict.wait + ctx->verdict.prefill) * 1e9));
        case TRIES:
                return put_whole(end, ctx->n_tries);
        case DECISION:
                return put_whole(end, (uint64_t)(ctx->decision_took / NSEC_PER_USEC));
        default:
                return put_session(end, ctx->query.session);
        }
}

static ngx_int_t number_get(const sublet_ctx_t *ctx, ngx_http_variable_value_t *v, enum variable which)
{
        u_char *room = ngx_pnalloc(ctx->request->pool, NUMBER), *from;

        if (!room)
                return NGX_ERROR;
        from = put_number(ctx, which, room + NUMBER);
        return text_get(v, from, (size_t)(room + NUMBER - from));
}

/* ---- variables ---------------------------------------------------------------------------------------------- */

static ngx_int_t variable_get(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t which)
{
        sublet_ctx_t *ctx = sublet_ctx(r);
        ngx_int_t rc;

        v->not_found = 1;
        if (!ctx)
                return NGX_OK;
        switch ((enum variable)which) {
        case MODEL:
                rc = text_get(v, ctx->model.data, ngx_min(ctx->model.len, (size_t)SHOWN));
                break;
        case REPLICA:
                rc = word_get(v, ctx->replica);
                break;
        case REASON:
                rc = word_get(v, ctx->refusal ? ctx->refusal : pick_reason_name(ctx->verdict.reason));
                break;
        case STREAM:
                rc = word_get(v, ctx->is_stream ? "1" : "0");
                break;
        default:
                rc = which == FIRST && !ctx->first_at ? word_get(v, "-") : number_get(ctx, v, (enum variable)which);
        }
        v->no_cacheable = 1;
        return rc;
}

static ngx_int_t key_get(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
        const sublet_ctx_t *ctx = sublet_ctx(r);
        const sublet_key_t *key = ctx ? ctx->key : sublet_key_of(r);

        (void)data;
        return key ? text_get(v, key->name.data, key->name.len) : text_get(v, (const u_char *)"", 0);
}

/* For the replica's header `Upgrade` (data 0) and `Connection`: only where an endpoint takes an upgrade. */
static ngx_int_t upgrade_get(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
        sublet_ctx_t *ctx = sublet_ctx(r);
        ngx_table_elt_t *h = r->headers_in.upgrade;

        if (!ctx || !ctx->endpoint || ctx->endpoint->body != ENDPOINT_SOCKET || !h)
                return text_get(v, (const u_char *)"", 0);
        return data ? text_get(v, (const u_char *)"upgrade", 7) : text_get(v, h->value.data, h->value.len);
}

/* For proxy_ssl_name; another one for each try. */
static ngx_int_t server_name_get(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
        sublet_ctx_t *ctx = sublet_ctx(r);

        (void)data;
        (void)text_get(v, (u_char *)(ctx ? ctx->server_name : ""), ctx ? ngx_strlen(ctx->server_name) : 0);
        v->no_cacheable = 1;
        return NGX_OK;
}

static const struct {
        ngx_str_t name;
        ngx_http_get_variable_pt get;
        uintptr_t data;
} PLAIN[] = {
        { ngx_string("sublet_id"), sublet_id_get, 0 },       { ngx_string("sublet_key"), key_get, 0 },
        { ngx_string("sublet_upgrade"), upgrade_get, 0 },    { ngx_string("sublet_server_name"), server_name_get, 0 },
        { ngx_string("sublet_connection"), upgrade_get, 1 },
};

ngx_int_t sublet_variables(ngx_conf_t *cf)
{
        for (size_t i = 0; i < sizeof(PLAIN) / sizeof(PLAIN[0]); i++) {
                ngx_str_t name = PLAIN[i].name;
                ngx_http_variable_t *v = ngx_http_add_variable(cf, &name, 0);

                if (!v)
                        return NGX_ERROR;
                v->get_handler = PLAIN[i].get;
                v->data = PLAIN[i].data;
        }

        for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
                ngx_str_t name = NAMES[i];
                ngx_http_variable_t *v = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);

                if (!v)
                        return NGX_ERROR;
                v->get_handler = variable_get;
                v->data = i;
        }
        return NGX_OK;
}

/* ---- the log phase --------------------------------------------------------------------------------- */

static enum pool_outcome outcome_of(ngx_http_request_t *r, const sublet_ctx_t *ctx)
{
        ngx_uint_t status = r->err_status ? r->err_status : r->headers_out.status;

        if (status == NGX_HTTP_CLIENT_CLOSED_REQUEST || r->connection->error)
                return POOL_LEFT;
        if (ctx->refusal)
                return ctx->outcome;
        if (ctx->is_answer)
                return POOL_ANSWERED;
        return status >= NGX_HTTP_INTERNAL_SERVER_ERROR ? POOL_FAILED : status >= 400 ? POOL_BAD : POOL_ANSWERED;
}

ngx_int_t sublet_log(ngx_http_request_t *r)
{
        sublet_ctx_t *ctx = sublet_ctx(r);

        if (!ctx)
                return NGX_OK;
        sublet_limits_settle(ctx);
        atomic_fetch_add(&ctx->pool->outcomes[outcome_of(r, ctx)], 1);
        if (ctx->was_held)
                pool_measure(&ctx->pool->held, ctx->held_for);
        if (ctx->is_answer && ctx->n_events > 2)
                pool_measure(&ctx->pool->token, (clock_now() - ctx->first_at) / (ctx->n_events - 1));
        return NGX_OK;
}
