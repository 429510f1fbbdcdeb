/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a request: its model and its prompt, from memory or from the file its body is in, and three headers. */
#include "route/nginx/module.h"

#include "route/request/hints.h"
#include "route/request/scan.h"

#include <sys/mman.h>

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

static int scan_once(ngx_http_request_t *r, const struct media_family *family, size_t *ret_size)
{
        int result = SCAN_OK;

        *ret_size = 0;
        prefix_begin(&prefix);
        scan_begin(&scan, &prefix);
        scan_family(&scan, family);
        for (ngx_chain_t *l = r->request_body ? r->request_body->bufs : NULL; l && result == SCAN_OK; l = l->next) {
                *ret_size += (size_t)ngx_buf_size(l->buf);
                if (l->buf->in_file)
                        result = scan_file(l->buf);
                else
                        result = scan_feed(&scan, l->buf->pos, (size_t)(l->buf->last - l->buf->pos));
        }
        return result == SCAN_OK ? scan_end(&scan) : result;
}

/* Once, but twice where pictures come before the name of the model that says what they cost. */
static int scan_body(ngx_http_request_t *r, size_t *ret_size)
{
        int result = scan_once(r, media_family(""), ret_size);

        return result == SCAN_OK && scan.is_misjudged ? scan_once(r, scan.family, ret_size) : result;
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
        index_ahead(ctx->pool->index, chain, prefix.n_blocks);
        ctx->query.tokens = (uint32_t)(prefix.size / PICK_BYTES_PER_TOKEN);
        return 1;
}

/* A model that is not named is any, if there are not two to choose from. */
static int keep_model(sublet_ctx_t *ctx, const char *name, size_t size)
{
        if (!size && ctx->endpoint->model == ENDPOINT_NEEDED && !pool_has_one_model(ctx->pool))
                return sublet_turn_away(ctx, POOL_BAD, "model_required");
        ctx->query.model = size ? pool_model_hash(name, size) : POOL_ANY;
        ctx->model.data = ngx_pnalloc(ctx->request->pool, size + 1);
        if (!ctx->model.data)
                return sublet_turn_away(ctx, POOL_NOBODY, "no_replica");
        ngx_memcpy(ctx->model.data, name, size);
        ctx->model.len = size;
        return 1;
}

/* Over a part of the body, in memory or in its file. 0: that failed. */
static int overwrite(ngx_http_request_t *r, uint64_t at, const char *text, size_t size)
{
        for (ngx_chain_t *l = r->request_body->bufs; l && size; l = l->next) {
                uint64_t length = (uint64_t)ngx_buf_size(l->buf);
                size_t n = at < length ? (size_t)ngx_min((uint64_t)size, length - at) : 0;

                if (n && l->buf->in_file) {
                        if (pwrite(l->buf->file->fd, text, n, l->buf->file_pos + (off_t)at) != (ssize_t)n)
                                return 0;
                } else if (n) {
                        ngx_memcpy(l->buf->pos + at, text, n);
                }
                at = n ? 0 : at - length;
                text += n;
                size -= n;
        }
        return !size;
}

/* What a client may not say does not reach the engine either: in place of the number come a zero and blanks. */
static int strip_priority(sublet_ctx_t *ctx)
{
        char text[SCAN_NUMBER];

        if (ctx->may_priority || !scan.n_priorities)
                return 1;
        ngx_memset(text, ' ', sizeof(text));
        text[0] = '0';
        if (scan.n_priorities == 1 && overwrite(ctx->request, scan.priority_at, text, scan.n_priority))
                return 1;
        (void)ngx_cpystrn((u_char *)ctx->detail, (u_char *)"'priority' is there twice.", sizeof(ctx->detail));
        return sublet_turn_away(ctx, POOL_BAD, "invalid_value");
}

static int keep_scan(sublet_ctx_t *ctx)
{
        const struct scan_word *session = scan.session.size ? &scan.session : &scan.user;

        ctx->is_stream = scan.is_stream;
        ctx->max_tokens = scan.max_tokens;
        ctx->n_choices = (uint32_t)ngx_max(1, ngx_min(scan.n, INT32_MAX));
        ctx->is_background = scan.is_background;
        if (ctx->may_priority) /* engines mean it the other way round: the lower goes first */
                ctx->item.priority = (int32_t)-ngx_max(-INT32_MAX, ngx_min(INT32_MAX, scan.priority));
        ctx->is_stored |= scan.has_link;
        if (!ctx->query.session)
                ctx->query.session = hash_word(session->text, session->size);
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
                if (ctx->may_priority) /* the sooner it is due, the sooner it goes */
                        ctx->item.due = ctx->item.deadline;
        } else if (HEADER_IS(h, "X-Sublet-Priority") && ctx->may_priority) {
                (void)hints_priority(h->value.data, h->value.len, &ctx->item.priority);
        } else if (HEADER_IS(h, "X-Sublet-Resume")) {
                ctx->wants_sequel = h->value.len == 5 && ngx_strncasecmp(h->value.data, (u_char *)"allow", 5) == 0;
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

/* Engines do not unpack bodies either. */
static int is_compressed(ngx_http_request_t *r)
{
        for (ngx_list_part_t *part = &r->headers_in.headers.part; part; part = part->next)
                for (ngx_uint_t i = 0; i < part->nelts; i++) {
                        ngx_table_elt_t *h = &((ngx_table_elt_t *)part->elts)[i];

                        if (HEADER_IS(h, "Content-Encoding"))
                                return h->value.len != 8 ||
                                       ngx_strncasecmp(h->value.data, (u_char *)"identity", 8) != 0;
                }
        return 0;
}

/* What is wrong with it: the field, or where. */
static int refuse_json(sublet_ctx_t *ctx, int error)
{
        u_char *to = (u_char *)ctx->detail, *end = to + sizeof(ctx->detail) - 1;

        if (is_compressed(ctx->request))
                return sublet_turn_away(ctx, POOL_BAD, "compressed_body");
        if (error == SCAN_E_TYPE)
                to = ngx_slprintf(to, end, "'%*s' has a value of the wrong type.", (size_t)scan.n_key, scan.key);
        else if (error == SCAN_E_JSON)
                to = ngx_slprintf(to, end, "%s: see byte %uL.", scan_error(error), scan.at);
        else
                to = ngx_slprintf(to, end, "%s.", scan_error(error));
        *to = 0;
        return sublet_turn_away(ctx, POOL_BAD,
                                error == SCAN_E_TYPE || error == SCAN_E_LONG ? "invalid_value" : "invalid_json");
}

static int read_json(sublet_ctx_t *ctx)
{
        size_t size;
        int r = scan_body(ctx->request, &size);

        if (r != SCAN_OK)
                return refuse_json(ctx, r);
        if (!strip_priority(ctx) || !keep_model(ctx, scan.model.text, scan.model.size))
                return 0;
        return keep_scan(ctx) ? 1 : sublet_turn_away(ctx, POOL_NOBODY, "no_replica");
}

/* All of a body in one piece of memory. NULL: none, or no memory. ret_map: to be unmapped, if it is not NULL. */
char *sublet_whole_body(ngx_http_request_t *r, size_t *ret_size, void **ret_map)
{
        ngx_chain_t *first = r->request_body ? r->request_body->bufs : NULL;
        u_char *copy, *at;

        *ret_size = 0;
        *ret_map = NULL;
        for (ngx_chain_t *l = first; l; l = l->next)
                *ret_size += (size_t)ngx_buf_size(l->buf);
        if (!*ret_size)
                return NULL;
        for (ngx_chain_t *l = first; l; l = l->next)
                if (l->buf->in_file) { /* then all of it is there, from its beginning */
                        *ret_map = mmap(NULL, *ret_size, PROT_READ, MAP_PRIVATE, l->buf->file->fd, 0);
                        *ret_map = *ret_map == MAP_FAILED ? NULL : *ret_map;
                        return *ret_map;
                }
        if (!first->next)
                return (char *)first->buf->pos;
        copy = at = ngx_palloc(r->pool, *ret_size);
        for (ngx_chain_t *l = first; copy && l; l = l->next)
                at = ngx_cpymem(at, l->buf->pos, (size_t)(l->buf->last - l->buf->pos));
        return (char *)copy;
}

static int read_form(sublet_ctx_t *ctx)
{
        ngx_str_t *type = &ctx->request->headers_in.content_type->value;
        const char *found = "";
        size_t size, n = 0;
        void *map;
        char *body = sublet_whole_body(ctx->request, &size, &map);
        int r;

        if (body)
                (void)endpoint_form_field((char *)type->data, type->len, body, size, "model", &found, &n);
        r = keep_model(ctx, found, n);
        if (map)
                (void)munmap(map, size);
        return r;
}

static int is_form(ngx_http_request_t *r)
{
        static const char form[] = "multipart/";
        ngx_table_elt_t *type = r->headers_in.content_type;

        return type && type->value.len > sizeof(form) - 1 &&
               ngx_strncasecmp(type->value.data, (u_char *)form, sizeof(form) - 1) == 0;
}

static int read_query(sublet_ctx_t *ctx)
{
        ngx_str_t value = ngx_null_string;
        u_char *from, *to;

        if (ctx->endpoint->model != ENDPOINT_QUERY ||
            ngx_http_arg(ctx->request, (u_char *)"model", 5, &value) != NGX_OK)
                return keep_model(ctx, "", 0);
        if (!keep_model(ctx, (char *)value.data, value.len))
                return 0;
        from = to = ctx->model.data;
        ngx_unescape_uri(&to, &from, ctx->model.len, 0);
        ctx->model.len = (size_t)(to - ctx->model.data);
        ctx->query.model = pool_model_hash((char *)ctx->model.data, ctx->model.len);
        return 1;
}

static int read_body(sublet_ctx_t *ctx)
{
        enum endpoint_body body = ctx->endpoint->body;

        if (is_form(ctx->request) && (body == ENDPOINT_FORM || body == ENDPOINT_ANY))
                return read_form(ctx);
        if (body == ENDPOINT_JSON || body == ENDPOINT_FORM)
                return read_json(ctx);
        return read_query(ctx);
}

int sublet_read_request(sublet_ctx_t *ctx)
{
        if (!read_body(ctx))
                return 0;
        read_headers(ctx); /* a header has precedence over the body */
        if (!pool_serves(ctx->pool, ctx->query.model) && ctx->pool->settings.is_complete)
                return sublet_turn_away(ctx, POOL_UNKNOWN, "model_not_found");
        sublet_sequel_begin(ctx);
        return 1;
}
