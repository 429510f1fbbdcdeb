/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys, and what they allow. A key comes as `Authorization: Bearer` or as `x-api-key`; it is found by its hash and
 * compared in constant time.
 */
#include "route/nginx/module.h"

/* ---- configuration -------------------------------------------------------------------------------------- */

/* "INTERVAL_USEC:BURST" */
static int set_rate(sublet_key_t *key, const char *text)
{
        const char *colon = ngx_strchr(text, ':');
        ngx_int_t usec = colon ? ngx_atoi((u_char *)text, (size_t)(colon - text)) : NGX_ERROR;
        ngx_int_t burst = colon ? ngx_atoi((u_char *)colon + 1, ngx_strlen(colon + 1)) : NGX_ERROR;

        if (usec < 1 || usec > 60000000 || burst < 0 || burst > INT32_MAX)
                return 0;
        key->interval = (nsec)usec * NSEC_PER_USEC;
        key->burst = (uint32_t)burst;
        return 1;
}

/* A limit, "NAME=VALUE". */
static int set_limit(sublet_key_t *key, const char *text)
{
        const char *equal = ngx_strchr(text, '=');
        size_t size = equal ? (size_t)(equal - text) : 0;
        ngx_int_t n = equal ? ngx_atoi((u_char *)equal + 1, ngx_strlen(equal + 1)) : NGX_ERROR;

        if (size == 4 && ngx_strncmp(text, "rate", 4) == 0)
                return set_rate(key, equal + 1);
        if (size == 10 && ngx_strncmp(text, "concurrent", 10) == 0 && n >= 1 && n < UINT16_MAX)
                key->concurrent = (uint32_t)n;
        else if (size == 6 && ngx_strncmp(text, "tokens", 6) == 0 && n >= 1)
                key->tokens = (uint64_t)n;
        else
                return 0;
        return 1;
}

char *sublet_key_set(ngx_conf_t *cf, ngx_command_t *cmd, void *data)
{
        sublet_main_t *conf = data;
        ngx_str_t *value = cf->args->elts;
        sublet_key_t *key = ngx_array_push(&conf->keys);

        (void)cmd;
        if (!key || conf->keys.nelts >= UINT16_MAX)
                return NGX_CONF_ERROR;
        ngx_memzero(key, sizeof(*key));
        key->name = value[1];
        key->token = value[2];
        key->hash = pool_model_hash((const char *)key->name.data, key->name.len);
        for (ngx_uint_t i = 3; i < cf->args->nelts; i++) {
                if (ngx_strcmp(value[i].data, "admin") == 0)
                        key->is_admin = 1;
                else if (ngx_strcmp(value[i].data, "priority") == 0)
                        key->may_priority = 1;
                else if (!set_limit(key, (char *)value[i].data))
                        return (char *)"takes: admin, priority, rate=INTERVAL_USEC:BURST, concurrent=1..65534, "
                                       "tokens=N";
        }
        return NGX_CONF_OK;
}

static size_t place_of(const sublet_main_t *conf, const u_char *token, size_t size)
{
        return (size_t)pool_model_hash((const char *)token, size) >> 1 & (conf->n_table - 1);
}

char *sublet_keys_init(ngx_conf_t *cf, void *data)
{
        sublet_main_t *conf = data;
        sublet_key_t *keys = conf->keys.elts;

        if (!conf->keys.nelts)
                return NGX_CONF_OK;
        for (conf->n_table = 16; conf->n_table < 2 * conf->keys.nelts; conf->n_table *= 2)
                ;
        conf->table = ngx_pcalloc(cf->pool, conf->n_table * sizeof(*conf->table));
        if (!conf->table)
                return NGX_CONF_ERROR;
        for (ngx_uint_t i = 0; i < conf->keys.nelts; i++) {
                size_t at = place_of(conf, keys[i].token.data, keys[i].token.len);

                while (conf->table[at])
                        at = (at + 1) & (conf->n_table - 1);
                conf->table[at] = (uint16_t)(i + 1);
        }
        return NGX_CONF_OK;
}

/* ---- requests ---------------------------------------------------------------------------------------------- */

static int is_equal(const ngx_str_t *a, const u_char *b, size_t size)
{
        u_char differs = 0;

        if (a->len != size)
                return 0;
        for (size_t i = 0; i < size; i++)
                differs |= a->data[i] ^ b[i];
        return !differs;
}

static const sublet_key_t *find_key(const sublet_main_t *conf, const u_char *token, size_t size)
{
        const sublet_key_t *keys = conf->keys.elts;

        for (size_t at = place_of(conf, token, size); conf->table[at]; at = (at + 1) & (conf->n_table - 1))
                if (is_equal(&keys[conf->table[at] - 1].token, token, size))
                        return &keys[conf->table[at] - 1];
        return NULL;
}

static const ngx_str_t *find_header(ngx_http_request_t *r, const char *name, size_t size)
{
        for (ngx_list_part_t *part = &r->headers_in.headers.part; part; part = part->next)
                for (ngx_uint_t i = 0; i < part->nelts; i++) {
                        ngx_table_elt_t *h = &((ngx_table_elt_t *)part->elts)[i];

                        if (h->key.len == size && ngx_strncasecmp(h->key.data, (u_char *)name, size) == 0)
                                return &h->value;
                }
        return NULL;
}

const sublet_key_t *sublet_key_of(ngx_http_request_t *r)
{
        static const char bearer[] = "Bearer ", name[] = "x-api-key";
        sublet_main_t *conf = ngx_http_get_module_main_conf(r, ngx_http_sublet_module);
        ngx_table_elt_t *h = r->headers_in.authorization;
        const ngx_str_t *value;
        size_t n = sizeof(bearer) - 1;

        if (!conf->n_table)
                return NULL;
        if (h && h->value.len > n && ngx_strncasecmp(h->value.data, (u_char *)bearer, n) == 0) {
                while (n < h->value.len && h->value.data[n] == ' ')
                        n++;
                return find_key(conf, h->value.data + n, h->value.len - n);
        }
        value = find_header(r, name, sizeof(name) - 1);
        return value ? find_key(conf, value->data, value->len) : NULL;
}

/* An engine's own paths, for those who administer it. */
static const struct endpoint administration = { .body = ENDPOINT_ANY, .model = ENDPOINT_OPTIONAL };

static enum endpoint_method method_of(ngx_http_request_t *r)
{
        switch (r->method) {
        case NGX_HTTP_GET:
        case NGX_HTTP_HEAD:
                return ENDPOINT_GET;
        case NGX_HTTP_POST:
                return ENDPOINT_POST;
        case NGX_HTTP_DELETE:
                return ENDPOINT_DEL;
        default:
                return ENDPOINT_OTHER;
        }
}

int sublet_path_check(sublet_ctx_t *ctx)
{
        ngx_http_request_t *r = ctx->request;
        sublet_main_t *conf = ngx_http_get_module_main_conf(r, ngx_http_sublet_module);
        const sublet_key_t *key = ctx->key;
        unsigned int methods;

        if (conf->n_table && !key)
                return sublet_turn_away(ctx, POOL_BAD, "invalid_api_key");
        ctx->may_priority = !conf->n_table || (key && key->may_priority);
        ctx->endpoint = endpoint_find((const char *)r->uri.data, r->uri.len, method_of(r), &methods);
        if (!ctx->endpoint && key && key->is_admin)
                ctx->endpoint = &administration;
        if (!ctx->endpoint)
                return sublet_turn_away(ctx, POOL_BAD, methods ? "method_not_allowed" : "unknown_endpoint");
        ctx->is_stored = ctx->endpoint->is_stored;
        return 1;
}
