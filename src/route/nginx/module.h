/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the nginx module: the state of a request, and the functions of its files.
 *
 *      module.c     directives, shared memory, the bell, hooks
 *      body.c       reads a request's body and headers
 *      request.c    decides, holds; the only place that gives load back (sublet_release)
 *      upstream.c   connects to the replica; sees the first byte
 *      answer.c     errors in the API's own form, GET /v1/models
 *      api.c        the agent's API;  metrics.c  /metrics for Prometheus
 *      variables.c  variables for logs and headers
 *
 * nginx's names and memory rules apply here: what belongs to a request lives in its pool.
 */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "route/pool.h"
#include "route/queue.h"

typedef struct {
        ngx_str_t name;
        ngx_shm_zone_t *zone;
        struct pool *pool; /* in shared memory */
} sublet_zone_t;

typedef struct {
        ngx_array_t zones; /* of sublet_zone_t * */
} sublet_main_t;

typedef struct {
        sublet_zone_t *route, *api, *models;
} sublet_loc_t;

typedef struct {
        ngx_queue_t queue; /* of the held requests */
        ngx_http_request_t *request;
        struct pool *pool;
        struct pool_request query;
        struct pick verdict;
        struct queue_item item;
        struct rate_ticket ticket;
        struct sockaddr_storage sockaddr;
        socklen_t socklen;
        ngx_str_t peer, model;
        char replica[POOL_NAME]; /* the last it was sent to */
        ngx_event_t deadline, resume;
        nsec arrived, decided, held_for, first_at, decision_took;
        int at;    /* slot of the replica that counts it, or -1 */
        int woken; /* slot whose wake-up was requested, or -1 */
        uint32_t fresh, n_events, n_tries;
        enum pool_outcome outcome;
        const char *refusal; /* code of the error; NULL: none */
        ngx_int_t rc;        /* NGX_DECLINED: go on, to the peer or to the refusal */
        unsigned is_stream : 1, has_body : 1, is_parked : 1, is_held : 1, is_first : 1, is_answer : 1, was_held : 1;
} sublet_ctx_t;

extern ngx_module_t ngx_http_sublet_module;

sublet_ctx_t *sublet_ctx(ngx_http_request_t *r); /* survives internal redirects; NULL: not routed */

/* module.c */
void sublet_ring(void); /* wakes all workers: held requests are decided anew, waiting agents get the state */

/* request.c */
ngx_int_t sublet_route(ngx_http_request_t *r); /* PRECONTENT phase */
void sublet_queue_init(void);
void sublet_queue_scan(void); /* the bell rang */
ngx_int_t sublet_decide(sublet_ctx_t *ctx, int is_retry);
void sublet_release(sublet_ctx_t *ctx);
void sublet_first_byte(sublet_ctx_t *ctx);

int sublet_turn_away(sublet_ctx_t *ctx, enum pool_outcome outcome, const char *code); /* 0 */

/* body.c */
int sublet_read_request(sublet_ctx_t *ctx); /* fills ctx->query; 0: refused, see sublet_turn_away */

/* upstream.c */
ngx_int_t sublet_init_upstream(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us);
void sublet_filter_init(void);

/* answer.c */
ngx_int_t sublet_send(ngx_http_request_t *r, ngx_uint_t status, const char *type, u_char *text, size_t size);
ngx_int_t sublet_refuse(ngx_http_request_t *r); /* content handler: ctx->refusal */
ngx_int_t sublet_error(ngx_http_request_t *r);  /* content handler of error_page */
ngx_int_t sublet_models(ngx_http_request_t *r);

/* api.c, metrics.c, variables.c */
ngx_int_t sublet_api(ngx_http_request_t *r);
void sublet_api_init(void);
void sublet_api_poll(void);
ngx_int_t sublet_metrics(ngx_http_request_t *r, struct pool *pool);
ngx_int_t sublet_variables(ngx_conf_t *cf);
ngx_int_t sublet_log(ngx_http_request_t *r); /* LOG phase */
