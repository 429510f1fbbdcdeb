/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a request: its body, from memory or from its file, and three headers. */
#include "route/nginx/module.h"

#include "route/hints.h"
#include "route/scan.h"

enum {
        PIECE = 64 * 1024,
};

/* One request at a time is scanned, from start to end. */
static struct scan scan;
static struct prefix prefix;

static int scan_file(ngx_buf_t *b)
{
        static u_char piece[PIECE];

        for (off_t at = b->file_pos; at < b->file_last;) {
                size_t want_now = (size_t)ngx_min((off_t)PIECE, b->file_last - at);
                ssize_t n = ngx_read_file(b->file, piece, want_now, at);

                if (n <= 0)
                        return SCAN_E_SHORT;
                (void)scan_feed(&scan, piece, (size_t)n);
                at += n;
        }
        return SCAN_OK;
}

static int scan_body(ngx_http_request_t *r, size_t *ret_size)
{
        int result = SCAN_OK;

        *ret_size = 0;
        prefix_begin(&prefix);
        scan_begin(&scan, &prefix);
        for (ngx_chain_t *l = r->request_body ? r->request_body->bufs : NULL; l && result == SCAN_OK; l = l->next) {
                *ret_size += (size_t)ngx_buf_size(l->buf);
                if (l->buf->in_file)
                        result = scan_file(l->buf);
                else
                        result = scan_feed(&scan, l->buf->pos, (size_t)(l->buf->last - l->buf->pos));
        }
        return result == SCAN_OK ? scan_end(&scan) : result;
}

static uint64_t hash_word(const void *word, size_t size)
{
        return size ? pool_model_hash(word, size) : 0;
}

static int keep_chain(sublet_ctx_t *ctx)
{
        uint64_t *chain = ngx_palloc(ctx->request->pool, (prefix.n_blocks + 1) * sizeof(uint64_t));

        if (!chain)
                return 0;
        ngx_memcpy(chain, prefix.chain, prefix.n_blocks * sizeof(uint64_t));
        ctx->query.chain = chain;
        ctx->query.n_blocks = prefix.n_blocks;
        ctx->query.tokens = (uint32_t)(prefix.size / PICK_BYTES_PER_TOKEN);
        return 1;
}

static int keep_scan(sublet_ctx_t *ctx)
{
        const struct scan_word *session = scan.session.size ? &scan.session : &scan.user;

        ctx->is_stream = scan.is_stream;
        ctx->item.priority = (int32_t)ngx_max(INT32_MIN, ngx_min(INT32_MAX, scan.priority));
        ctx->query.model = pool_model_hash(scan.model.text, scan.model.size);
        if (!ctx->query.session)
                ctx->query.session = hash_word(session->text, session->size);
        ctx->model.len = scan.model.size;
        ctx->model.data = ngx_pnalloc(ctx->request->pool, scan.model.size);
        if (!ctx->model.data)
                return 0;
        ngx_memcpy(ctx->model.data, scan.model.text, scan.model.size);
        return keep_chain(ctx);
}

static int header_is(const ngx_table_elt_t *h, const char *name, size_t size)
{
        return h->key.len == size && ngx_strncasecmp(h->key.data, (u_char *)name, size) == 0;
}

#define HEADER_IS(h, name) header_is(h, name, sizeof(name) - 1)

static void read_header(sublet_ctx_t *ctx, const ngx_table_elt_t *h)
{
        nsec span;

        if (HEADER_IS(h, "X-Session-ID")) {
                ctx->query.session = hash_word(h->value.data, h->value.len);
        } else if (HEADER_IS(h, "X-Sublet-Deadline-Ms")) {
                ctx->has_deadline =
                        hints_deadline(h->value.data, h->value.len, ctx->item.deadline - ctx->item.arrived, &span);
                if (ctx->has_deadline)
                        ctx->item.deadline = ctx->item.arrived + span;
        } else if (HEADER_IS(h, "X-Sublet-Priority")) {
                (void)hints_priority(h->value.data, h->value.len, &ctx->item.priority);
        }
}

static void read_headers(sublet_ctx_t *ctx)
{
        ngx_list_part_t *part = &ctx->request->headers_in.headers.part;

        for (; part; part = part->next)
                for (ngx_uint_t i = 0; i < part->nelts; i++) {
                        ngx_table_elt_t *h = &((ngx_table_elt_t *)part->elts)[i];

                        if (h->key.data[0] == 'X' || h->key.data[0] == 'x')
                                read_header(ctx, h);
                }
}

int sublet_read_request(sublet_ctx_t *ctx)
{
        size_t size;
        int r = scan_body(ctx->request, &size);

        if (!size && ctx->request->method & (NGX_HTTP_GET | NGX_HTTP_HEAD | NGX_HTTP_DELETE | NGX_HTTP_OPTIONS)) {
                ctx->query.model = POOL_ANY;
                ctx->query.chain = NULL;
                read_headers(ctx);
                return 1;
        }
        if (r != SCAN_OK)
                return sublet_turn_away(ctx, POOL_BAD, "invalid_json");
        if (!scan.has_model || !scan.model.size)
                return sublet_turn_away(ctx, POOL_BAD, "model_required");
        if (!keep_scan(ctx))
                return sublet_turn_away(ctx, POOL_NOBODY, "no_replica");
        read_headers(ctx); /* a header has precedence over the body */
        if (!pool_serves(ctx->pool, ctx->query.model) && ctx->pool->settings.is_complete)
                return sublet_turn_away(ctx, POOL_UNKNOWN, "model_not_found");
        return 1;
}
