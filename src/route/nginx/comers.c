/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections an address has at this worker, whatever they are doing: nginx's limit_conn counts requests whose
 * head it has read, so who sends heads that do not end is counted nowhere, and could have all connections of a worker
 * for client_header_timeout. One too many is closed at once. Peers of a Unix socket are not bounded: they are one.
 *
 * An address of IPv6 is its /64. An entry lives as long as one of its connections.
 */
#include "route/nginx/module.h"

enum {
        BUCKETS = 1024,
        KEY = 16,
        PREFIX = 8, /* bytes of an IPv6 address that are a subscriber's */
};

typedef struct comer {
        struct comer *next;
        int family;
        u_char key[KEY];
        ngx_uint_t n;
        unsigned is_told : 1;
} comer_t;

static comer_t *comers[BUCKETS];
static ngx_uint_t most; /* 0: no bound */

/* False: of no address. */
static int comer_of(const struct sockaddr *address, comer_t *ret)
{
        *ret = (comer_t){ .family = address->sa_family };
        if (address->sa_family == AF_INET) {
                ngx_memcpy(ret->key, &((const struct sockaddr_in *)address)->sin_addr, sizeof(struct in_addr));
        } else if (address->sa_family == AF_INET6) {
                const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;

                ngx_memcpy(ret->key, six, IN6_IS_ADDR_V4MAPPED(six) ? KEY : PREFIX);
        } else {
                return 0;
        }
        return 1;
}

static comer_t **comer_at(const comer_t *like)
{
        comer_t **at = &comers[ngx_murmur_hash2((u_char *)like->key, KEY) % BUCKETS];

        while (*at && ((*at)->family != like->family || ngx_memcmp((*at)->key, like->key, KEY) != 0))
                at = &(*at)->next;
        return at;
}

static void go(void *data)
{
        comer_t *comer = data, **at;

        if (--comer->n)
                return;
        at = comer_at(comer);
        *at = comer->next;
        ngx_free(comer);
}

/* The address has one more, until the connection's pool is destroyed. False: it may not, or there is no memory. */
static int counts(ngx_connection_t *c, const comer_t *like)
{
        ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(c->pool, 0);
        comer_t **at = comer_at(like);

        if (!cleanup)
                return 0;
        if (!*at) {
                *at = ngx_alloc(sizeof(**at), c->log);
                if (!*at)
                        return 0;
                **at = *like;
        }
        cleanup->handler = go;
        cleanup->data = *at;
        if (++(*at)->n <= most)
                return 1;
        if (!(*at)->is_told)
                ngx_log_error(NGX_LOG_WARN, c->log, 0, "more than %ui connections of %V: further ones are closed", most,
                              &c->addr_text);
        (*at)->is_told = 1;
        return 0;
}

static void come(ngx_connection_t *c)
{
        comer_t like;

        if (comer_of(c->sockaddr, &like) && !counts(c, &like))
                ngx_http_close_connection(c);
        else
                ngx_http_init_connection(c);
}

char *sublet_connections_set(ngx_conf_t *cf, ngx_command_t *cmd, void *data)
{
        sublet_main_t *conf = data;
        ngx_int_t n = ngx_atoi(((ngx_str_t *)cf->args->elts)[1].data, ((ngx_str_t *)cf->args->elts)[1].len);

        (void)cmd;
        if (n == NGX_ERROR)
                return (char *)"is no number";
        conf->connections = (ngx_uint_t)n;
        return NGX_CONF_OK;
}

void sublet_comers_init(ngx_cycle_t *cycle, ngx_uint_t connections)
{
        ngx_listening_t *listening = cycle->listening.elts;

        most = connections;
        for (ngx_uint_t i = 0; i < cycle->listening.nelts && most; i++)
                if (listening[i].handler == ngx_http_init_connection)
                        listening[i].handler = come;
}
