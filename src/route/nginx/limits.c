/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API key may use: requests in time, requests at once, tokens a minute. All of it is in the zone, for all
 * workers; the agent tells the module what the key uses at other routers (routers.c).
 *
 * Tokens are taken as they are estimated before a request is sent, and settled once, when it is over, by what its
 * answer says of them. One that says nothing stays as it was estimated, or as many as there were events, if that is
 * more. What is made in the background, and a batch, is settled again with each word of it that is fetched later. What
 * a session uses is taken while it runs (session.c).
 */
#include "route/nginx/module.h"

enum {
        ANSWER_TOKENS = 1024, /* of an answer whose request has no bound */
        ANSWER_TOKENS_MAX = 1 << 20,
        CHOICES_MAX = 128,
};

static int is_below(const ngx_http_request_t *r, const char *path, size_t size)
{
        return r->uri.len >= size && ngx_memcmp(r->uri.data, path, size) == 0;
}

#define IS_BELOW(r, path) is_below(r, path, sizeof(path) - 1)

/* ---- requests ------------------------------------------------------------------------------------------------ */

static int refuse(sublet_ctx_t *ctx, nsec wait, const char *why)
{
        ctx->retry_after = wait;
        (void)ngx_cpystrn((u_char *)ctx->detail, (u_char *)why, sizeof(ctx->detail));
        return sublet_turn_away(ctx, POOL_LIMITED, "rate_limited");
}

static _Atomic uint16_t *row_of(const sublet_ctx_t *ctx)
{
        return &ctx->pool->key_rows[(unsigned int)ngx_process_slot % POOL_WORKERS][ctx->allowance - ctx->pool->keys];
}

int sublet_limits_enter(sublet_ctx_t *ctx)
{
        const sublet_key_t *key = ctx->key;
        nsec now = ctx->arrived;

        if (!key || !(key->interval || key->concurrent || key->tokens))
                return 1;
        ctx->allowance = allowance_find(ctx->pool->keys, POOL_KEYS, key->hash);
        if (!ctx->allowance)
                return refuse(ctx, NSEC_PER_SEC, "This server has seen too many keys."); /* since it was started */
        if (key->concurrent) {
                if (!allowance_enter(ctx->allowance, row_of(ctx), key->concurrent, now))
                        return refuse(ctx, NSEC_PER_SEC, "This key has as many requests at once as it may have.");
                ctx->is_at_once = 1;
        }
        if (key->interval && !allowance_take(ctx->allowance, key->interval, key->burst, now))
                return refuse(ctx, allowance_wait(ctx->allowance, key->interval, key->burst, now),
                              "Too many requests with this key. Try again later.");
        return 1;
}

void sublet_limits_leave(sublet_ctx_t *ctx)
{
        if (ctx->is_at_once)
                allowance_leave(ctx->allowance, row_of(ctx));
        ctx->is_at_once = 0;
}

/* ---- tokens -------------------------------------------------------------------------------------------------- */

static int writes_text(const ngx_http_request_t *r)
{
        return IS_BELOW(r, "/v1/chat/completions") || IS_BELOW(r, "/v1/completions") || IS_BELOW(r, "/v1/responses") ||
               IS_BELOW(r, "/generate") || (IS_BELOW(r, "/v1/messages") && !IS_BELOW(r, "/v1/messages/count_tokens"));
}

static uint64_t estimate(const sublet_ctx_t *ctx)
{
        uint64_t answer = ANSWER_TOKENS, choices = ngx_max(1, ngx_min(ctx->n_choices, CHOICES_MAX));

        if (!writes_text(ctx->request))
                return ctx->query.tokens;
        if (ctx->max_tokens > 0)
                answer = (uint64_t)ngx_min(ctx->max_tokens, ANSWER_TOKENS_MAX);
        return ctx->query.tokens + choices * answer;
}

/* A batch of files, or of messages. */
static int is_batch(const ngx_http_request_t *r)
{
        static const char files[] = "/v1/batches", messages[] = "/v1/messages/batches";

        return r->method == NGX_HTTP_POST && ((r->uri.len == sizeof(files) - 1 && IS_BELOW(r, files)) ||
                                              (r->uri.len == sizeof(messages) - 1 && IS_BELOW(r, messages)));
}

int sublet_limits_reserve(sublet_ctx_t *ctx)
{
        ngx_http_request_t *r = ctx->request;
        nsec wait;

        if (!ctx->allowance || !ctx->key->tokens)
                return 1;
        if (ctx->endpoint->body == ENDPOINT_SOCKET) {
                wait = tokens_take(&ctx->allowance->tokens, ctx->key->tokens, 1, clock_now());
                return wait ? refuse(ctx, wait, "This key has used its tokens of this minute.") : 1;
        }
        if (r->method != NGX_HTTP_POST || (ctx->endpoint->is_stored && !is_batch(r)))
                return 1;
        ctx->is_background |= is_batch(r);
        ctx->reserved = estimate(ctx);
        wait = tokens_take(&ctx->allowance->tokens, ctx->key->tokens, ctx->reserved, clock_now());
        if (wait)
                return refuse(ctx, wait, "This key has used its tokens of this minute.");
        ctx->is_reserved = 1;
        return 1;
}

/* What was made in the background, by whom does not matter: it is settled with the key that asked for it. */
static int is_fetched(const sublet_ctx_t *ctx)
{
        const ngx_http_request_t *r = ctx->request;

        return ctx->endpoint && ctx->endpoint->is_stored &&
               (IS_BELOW(r, "/v1/responses/") || IS_BELOW(r, "/v1/batches/") || IS_BELOW(r, "/v1/messages/batches/"));
}

/* The batch whose results these are; 0: none. */
static size_t results_of(const ngx_http_request_t *r, const u_char **ret)
{
        static const char from[] = "/v1/messages/batches/", end[] = "/results";
        size_t above = sizeof(from) - 1 + sizeof(end) - 1;

        if (r->uri.len <= above || !IS_BELOW(r, from) ||
            ngx_memcmp(r->uri.data + r->uri.len - (sizeof(end) - 1), end, sizeof(end) - 1) != 0)
                return 0;
        *ret = r->uri.data + sizeof(from) - 1;
        return r->uri.len - above;
}

static int is_events(const ngx_http_request_t *r)
{
        static const char events[] = "text/event-stream";
        const ngx_str_t *type = &r->headers_out.content_type;

        return type->len >= sizeof(events) - 1 &&
               ngx_strncasecmp(type->data, (u_char *)events, sizeof(events) - 1) == 0;
}

void sublet_limits_read(sublet_ctx_t *ctx, ngx_chain_t *in)
{
        ngx_http_request_t *r = ctx->request;
        const u_char *name;

        if (!ctx->is_reserved && !is_fetched(ctx))
                return;
        if (!ctx->usage) {
                ctx->usage = ngx_palloc(r->pool, sizeof(*ctx->usage));
                if (!ctx->usage)
                        return;
                usage_begin(ctx->usage, results_of(r, &name) ? USAGE_MANY : is_events(r) ? USAGE_EVENTS : USAGE_ONE);
        }
        for (ngx_chain_t *l = in; l; l = l->next)
                if (ngx_buf_in_memory(l->buf))
                        usage_feed(ctx->usage, l->buf->pos, (size_t)(l->buf->last - l->buf->pos));
}

static int is_said(const sublet_ctx_t *ctx)
{
        return ctx->usage && ctx->usage->is_said;
}

/* What was said before the end is not all of it. */
static uint64_t used(const sublet_ctx_t *ctx)
{
        uint64_t counted;

        if (is_said(ctx)) {
                counted = ctx->is_cut ? ctx->usage->prompt + ctx->n_events : 0;
                return ngx_max(usage_tokens(ctx->usage), counted);
        }
        counted = ctx->query.tokens + ctx->n_events;
        if (ctx->is_answer)
                return ngx_max(ctx->reserved, counted);
        return ctx->is_cut && ctx->n_tries ? ctx->reserved : 0; /* it left while its prompt was computed */
}

static uint64_t id_of(const struct usage *usage)
{
        return *usage->id ? pool_model_hash(usage->id, ngx_strlen(usage->id)) : 0;
}

static uint64_t fetched_id(const sublet_ctx_t *ctx)
{
        const u_char *name;
        size_t size = results_of(ctx->request, &name);

        return size ? pool_model_hash((const char *)name, size) : id_of(ctx->usage);
}

/* What a batch uses grows while it runs: what is paid is kept, and the next word of it pays the rest. */
static void settle_stored(sublet_ctx_t *ctx)
{
        uint64_t id = is_said(ctx) && !ctx->is_cut ? fetched_id(ctx) : 0, n;
        struct allowance *allowance;
        struct stored stored;

        if (!id || !stored_take(&ctx->pool->stored, id, &stored))
                return;
        n = usage_tokens(ctx->usage);
        allowance = allowance_find(ctx->pool->keys, POOL_KEYS, stored.key);
        if (allowance)
                tokens_settle(&allowance->tokens, stored.per_minute, stored.reserved, n, clock_now());
        stored.reserved = n;
        if (!IS_BELOW(ctx->request, "/v1/responses/"))
                stored_put(&ctx->pool->stored, id, &stored);
}

void sublet_limits_settle(sublet_ctx_t *ctx)
{
        uint64_t n;

        if (!ctx->is_reserved) {
                settle_stored(ctx);
                return;
        }
        ctx->is_reserved = 0;
        n = used(ctx);
        tokens_settle(&ctx->allowance->tokens, ctx->key->tokens, ctx->reserved, n, clock_now());
        if (ctx->is_background && ctx->is_answer && (!is_said(ctx) || ctx->is_cut) && ctx->usage && id_of(ctx->usage))
                stored_put(&ctx->pool->stored, id_of(ctx->usage),
                           &(struct stored){ .key = ctx->key->hash, .reserved = n, .per_minute = ctx->key->tokens });
}
