/* What the request log says of a decision. */
#include "route/nginx/module.h"

typedef int (*sublet_format_pt)(const sublet_ctx_t *ctx, u_char *to, size_t room);

enum {
        ROOM = 256,
};

static int text(u_char *to, const char *value)
{
        return (int)(ngx_cpystrn(to, (u_char *)value, ROOM) - to);
}

static int number(u_char *to, int64_t n)
{
        return (int)(ngx_sprintf(to, "%L", n) - to);
}

static int msec(u_char *to, nsec span)
{
        return (int)(ngx_sprintf(to, "%L.%03L", span / NSEC_PER_MSEC, span / NSEC_PER_USEC % 1000) - to);
}

static int format_model(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        size_t n = ngx_min(room, ctx->model.len);

        ngx_memcpy(to, ctx->model.data, n);
        return (int)n;
}

static int format_replica(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return text(to, ctx->replica);
}

static int format_reason(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return text(to, ctx->refusal ? ctx->refusal : pick_reason_name(ctx->verdict.reason));
}

static int format_prompt(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return number(to, ctx->query.tokens);
}

static int format_matched(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return number(to, ctx->verdict.matched);
}

static int format_wait(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return msec(to, ctx->held_for);
}

static int format_first(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return ctx->first_at ? msec(to, ctx->first_at - ctx->arrived) : text(to, "-");
}

static int format_expected(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return msec(to, (nsec)((ctx->verdict.wait + ctx->verdict.prefill) * 1e9));
}

static int format_tries(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return number(to, ctx->n_tries);
}

static int format_stream(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return number(to, ctx->is_stream);
}

static int format_decision(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return number(to, ctx->decision_took / NSEC_PER_USEC);
}

static int format_session(const sublet_ctx_t *ctx, u_char *to, size_t room)
{
        (void)room;
        return (int)(ngx_sprintf(to, "%016xL", (int64_t)ctx->query.session) - to);
}

static const struct {
        ngx_str_t name;
        sublet_format_pt say;
} VARIABLES[] = {
        { ngx_string("sublet_model"), format_model },          { ngx_string("sublet_replica"), format_replica },
        { ngx_string("sublet_reason"), format_reason },        { ngx_string("sublet_prompt"), format_prompt },
        { ngx_string("sublet_matched"), format_matched },      { ngx_string("sublet_wait_ms"), format_wait },
        { ngx_string("sublet_first_ms"), format_first },       { ngx_string("sublet_expected_ms"), format_expected },
        { ngx_string("sublet_tries"), format_tries },          { ngx_string("sublet_stream"), format_stream },
        { ngx_string("sublet_decision_us"), format_decision }, { ngx_string("sublet_session"), format_session },
};

static ngx_int_t variable_get(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t i)
{
        sublet_ctx_t *ctx = sublet_ctx(r);

        v->not_found = 1;
        if (!ctx)
                return NGX_OK;
        v->data = ngx_pnalloc(r->pool, ROOM);
        if (!v->data)
                return NGX_ERROR;
        v->len = (unsigned int)VARIABLES[i].say(ctx, v->data, ROOM) & 0xfffffffu;
        v->valid = 1;
        v->no_cacheable = 1;
        v->not_found = 0;
        return NGX_OK;
}

ngx_int_t sublet_variables(ngx_conf_t *cf)
{
        for (size_t i = 0; i < sizeof(VARIABLES) / sizeof(VARIABLES[0]); i++) {
                ngx_str_t name = VARIABLES[i].name;
                ngx_http_variable_t *v = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);

                if (!v)
                        return NGX_ERROR;
                v->get_handler = variable_get;
                v->data = i;
        }
        return NGX_OK;
}
