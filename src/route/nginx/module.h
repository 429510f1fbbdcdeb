/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the nginx module: the state of a request, and the functions of its files.
 *
 *      module.c     directives, shared memory, the bell, hooks
 *      keys.c       API keys, and which paths a client may use
 *      limits.c     what a key may use: requests, requests at once, tokens
 *      body.c       reads a request's body and headers
 *      request.c    decides; the only place that gives load back (sublet_release)
 *      hold.c       holds requests that nobody can take now
 *      watch.c      takes requests from replicas that are out or silent
 *      upstream.c   connects to the replica, and to another if that fails
 *      reply.c      judges what comes back, and keeps it until its first byte
 *      session.c    counts the tokens of a session over a websocket
 *      sequel.c     lets a stream that broke off go on at another replica
 *      answer.c     errors in the API's own form, GET /v1/models
 *      api.c        the agent's API;  wait.c  its long poll;  metrics.c  /metrics for Prometheus
 *      variables.c  variables for logs and headers;  ids.c  the number of a request
 *
 * nginx's names and memory rules apply here: what belongs to a request lives in its pool.
 */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "route/request/endpoint.h"
#include "route/pool.h"
#include "route/queue.h"
#include "route/keys/frames.h"
#include "route/keys/usage.h"
#include "route/request/sequel.h"

typedef struct {
        ngx_str_t name;
        ngx_shm_zone_t *zone;
        struct pool *pool; /* in shared memory */
} sublet_zone_t;

typedef struct {
        ngx_str_t name, token;
        uint64_t hash;              /* of its name */
        nsec interval;              /* between two of its requests; 0: no bound */
        uint32_t burst, concurrent; /* concurrent 0: no bound */
        uint64_t tokens;            /* a minute; 0: no bound */
        unsigned is_admin : 1, may_priority : 1;
} sublet_key_t;

typedef struct {
        ngx_array_t zones;      /* of sublet_zone_t * */
        ngx_array_t keys;       /* of sublet_key_t */
        uint16_t *table;        /* indices of keys + 1, by the hash of the token */
        size_t n_table;         /* a power of two; 0: no keys */
        ngx_uint_t connections; /* of one address at a worker; 0: no bound */
} sublet_main_t;

typedef struct {
        sublet_zone_t *route, *api, *models;
} sublet_loc_t;

typedef struct {
        struct sequel stream;
        ngx_event_t cut;                     /* the rest is asked for */
        ngx_int_t (*inner_init)(void *data); /* these of the proxy module */
        ngx_int_t (*inner_filter)(void *data, ssize_t bytes);
        void (*inner_finalize)(ngx_http_request_t *r, ngx_int_t rc);
        ngx_recv_pt inner_recv;                  /* of the replica's connection */
        ngx_http_upstream_handler_pt await_head; /* nginx's, while no head is there */
        ngx_http_event_handler_pt check_client;
        uint32_t n_added;       /* tokens of the prompt that are the answer's */
        unsigned is_cut : 1;    /* the replica's connection has ended, which nginx does not know yet */
        unsigned is_second : 1; /* the client has the beginning, from another replica */
} sublet_sequel_t;

typedef struct {
        struct frames frames;
        uint64_t paid_tokens;
        ngx_event_t paid;                      /* nothing is owed any more */
        ngx_recv_pt replica_recv, client_recv; /* of their connections */
} sublet_session_t;

typedef struct {
        ngx_queue_t queue; /* of the held requests */
        ngx_queue_t sent;  /* of the unanswered ones */
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
        char server_name[POOL_ADDRESS];
        ngx_event_t deadline, resume, waiting, body_due;
        ngx_int_t (*inner_header)(ngx_http_request_t *r); /* of the proxy module */
        ngx_int_t (*inner_reinit)(ngx_http_request_t *r);
        u_char *head_from;  /* in the buffer, behind heads of 1xx; NULL: its beginning */
        enum answer answer; /* of this try, as far as it is known */
        nsec expected;      /* until its first byte, from when it was sent; 0: nobody can say */
        int64_t max_tokens;
        nsec arrived, decided, held_at, held_for, first_at, first_by, decision_took;
        int at;    /* slot of the replica that counts it, or -1 */
        int woken; /* slot whose wake-up was requested, or -1 */
        uint32_t fresh, n_events, n_tries, n_failed, n_errors;
        ngx_uint_t log_level; /* of the client's connection, while nginx is kept quiet; 0: it is not */
        enum pool_outcome outcome;
        const char *refusal; /* code of the error; NULL: none */
        const struct endpoint *endpoint;
        const sublet_key_t *key;     /* NULL: none */
        struct allowance *allowance; /* of the key, if it has a limit; in shared memory */
        struct usage *usage;         /* what its answer says; NULL: nobody asks, or it has not begun */
        sublet_sequel_t *sequel;     /* NULL: its answer cannot go on elsewhere */
        sublet_session_t *session;   /* NULL: it is none, or none whose tokens count */
        uint64_t reserved;           /* tokens of the key's budget */
        uint32_t n_choices;
        nsec retry_after; /* of the refusal; 0: nobody said */
        char detail[128]; /* of the refusal, in place of its usual message; "": none. Safe in JSON */
        ngx_int_t rc;     /* NGX_DECLINED: go on, to the peer or to the refusal */
        unsigned is_stream : 1, has_body : 1, is_parked : 1, is_held : 1, is_first : 1, is_answer : 1, was_held : 1;
        unsigned has_deadline : 1;  /* the client said how long it may be held */
        unsigned has_head : 1;      /* the head of the answer was read */
        unsigned is_bought : 1;     /* its next try is paid */
        unsigned was_of_before : 1; /* an answer was taken for one to what came before it */
        unsigned is_sent : 1;       /* in the list `sent` */
        unsigned is_waiting : 1;    /* as a peer of nginx's upstream */
        unsigned is_nobody : 1;     /* held because nobody is up */
        unsigned is_stored : 1;     /* it names what one replica has stored */
        unsigned is_tls : 1;        /* that replica is reached by TLS */
        unsigned may_priority : 1;  /* its key may say how urgent it is */
        unsigned is_at_once : 1;    /* it counts among its key's requests at once */
        unsigned is_reserved : 1;   /* tokens were taken for it; they are settled at its end */
        unsigned is_background : 1;
        unsigned is_line_empty : 1; /* of a stream: its last line has nothing yet, or \r */
        unsigned is_given_up : 1;   /* no other try */
        unsigned wants_sequel : 1;
        unsigned is_cut : 1; /* the answer did not come to its end, or the client left before */
} sublet_ctx_t;

extern ngx_module_t ngx_http_sublet_module;

sublet_ctx_t *sublet_ctx(ngx_http_request_t *r); /* survives internal redirects; NULL: not routed */

/* api.c: a number of the query; what is none is `otherwise` */
uint64_t sublet_argument(ngx_http_request_t *r, const char *name, uint64_t otherwise);

/* module.c */
void sublet_ring(void); /* wakes all workers: held requests are decided anew, waiting agents get the state */

/* request.c */
ngx_int_t sublet_route(ngx_http_request_t *r); /* PRECONTENT phase */
void sublet_count(sublet_ctx_t *ctx, int replica, enum pool_load what, int64_t by);
ngx_int_t sublet_decide(sublet_ctx_t *ctx, int is_last); /* is_last: above a replica's bound if need be */
void sublet_release(sublet_ctx_t *ctx);
void sublet_first_byte(sublet_ctx_t *ctx);
void sublet_gave_up(sublet_ctx_t *ctx, nsec now);                                     /* its first byte was overdue */
int sublet_turn_away(sublet_ctx_t *ctx, enum pool_outcome outcome, const char *code); /* 0 */

/* hold.c */
void sublet_queue_init(void);
int sublet_queue_is_empty(void);
void sublet_queue_scan(void); /* somebody may be free */
int sublet_may_hold(sublet_ctx_t *ctx);
void sublet_nobody(sublet_ctx_t *ctx);          /* turns it away, if no replica takes it (ctx->rc) */
int sublet_hold(sublet_ctx_t *ctx);             /* 1: parked. 0: see ctx->rc */
ngx_int_t sublet_hold_again(sublet_ctx_t *ctx); /* NGX_AGAIN: held, as a peer. NGX_DECLINED: go. NGX_ERROR */
void sublet_unpark(sublet_ctx_t *ctx);
void sublet_on_resume(ngx_event_t *event);
void sublet_on_deadline(ngx_event_t *event);

/* watch.c */
void sublet_watch_init(void);
int sublet_watch_is_empty(void);
void sublet_watch(sublet_ctx_t *ctx);
void sublet_unwatch(sublet_ctx_t *ctx);
void sublet_watch_scan(void);

/* keys.c */
char *sublet_key_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *sublet_keys_init(ngx_conf_t *cf, void *conf);
const sublet_key_t *sublet_key_of(ngx_http_request_t *r); /* NULL: none, or an unknown one */
int sublet_path_check(sublet_ctx_t *ctx);                 /* fills ctx->endpoint; 0: refused */

/* limits.c; 0: refused */
int sublet_limits_enter(sublet_ctx_t *ctx);                  /* before anything is read */
int sublet_limits_reserve(sublet_ctx_t *ctx);                /* tokens, when the request was read */
void sublet_limits_read(sublet_ctx_t *ctx, ngx_chain_t *in); /* a part of the answer */
void sublet_limits_settle(sublet_ctx_t *ctx);                /* it is over */
void sublet_limits_leave(sublet_ctx_t *ctx);

/* body.c */
int sublet_read_request(sublet_ctx_t *ctx); /* fills ctx->query; 0: refused, see sublet_turn_away */
char *sublet_whole_body(ngx_http_request_t *r, size_t *ret_size, void **ret_map);

/* upstream.c */
ngx_int_t sublet_init_upstream(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us);
void sublet_on_waiting(ngx_event_t *event);
void sublet_peer_resume(sublet_ctx_t *ctx); /* the request that waits as a peer goes on */
void sublet_quiet(sublet_ctx_t *ctx);       /* until sublet_loud */
void sublet_loud(sublet_ctx_t *ctx);
int sublet_is_stale(const sublet_ctx_t *ctx, const ngx_peer_connection_t *pc, nsec now); /* kept, and just used again */

/* reply.c */
void sublet_reply_wrap(sublet_ctx_t *ctx);
int sublet_may_buy(sublet_ctx_t *ctx, nsec now); /* another try, from the budget */
void sublet_filter_init(void);

/* session.c */
void sublet_session_begin(sublet_ctx_t *ctx); /* this answer is good */
void sublet_session_end(sublet_ctx_t *ctx);

/* sequel.c */
void sublet_sequel_begin(sublet_ctx_t *ctx);                                    /* the request was read */
void sublet_sequel_wrap(sublet_ctx_t *ctx);                                     /* as sublet_reply_wrap */
void sublet_sequel_head(ngx_http_request_t *r);                                 /* nginx waits for a head */
int sublet_sequel_fits(const sublet_ctx_t *ctx, int is_events, int is_encoded); /* this good answer can be the rest */
int sublet_sequel_is_cut(const sublet_ctx_t *ctx); /* of this try: the rest is to come from elsewhere */
void sublet_sequel_leave(sublet_ctx_t *ctx);       /* a try is over, and its load given back */
void sublet_sequel_end(sublet_ctx_t *ctx);
void sublet_sequel_init(void);

/* answer.c */
ngx_int_t sublet_send(ngx_http_request_t *r, ngx_uint_t status, const char *type, u_char *text, size_t size);
ngx_uint_t sublet_retry_after(struct pool *pool); /* seconds until the replicas have done what they have */
ngx_int_t sublet_refuse(ngx_http_request_t *r);   /* content handler: ctx->refusal */
ngx_int_t sublet_error(ngx_http_request_t *r);    /* content handler of error_page */
ngx_int_t sublet_models(ngx_http_request_t *r);

/* routers.c: the body of PUT /v1/routers and its answer, the caller's; NULL with why not (static) */
struct json_t *sublet_hear(struct pool *pool, const struct json_t *body, const char **ret_why);

/* api.c, wait.c, metrics.c, variables.c */
ngx_int_t sublet_api(ngx_http_request_t *r);
ngx_int_t sublet_send_state(ngx_http_request_t *r, const struct pool *pool);
ngx_int_t sublet_wait(ngx_http_request_t *r, struct pool *pool);
void sublet_wait_init(void);
void sublet_wait_poll(void);
ngx_int_t sublet_metrics(ngx_http_request_t *r, struct pool *pool);
ngx_int_t sublet_variables(ngx_conf_t *cf);
char *sublet_connections_set(ngx_conf_t *cf, ngx_command_t *cmd, void *data); /* comers.c */
void sublet_comers_init(ngx_cycle_t *cycle, ngx_uint_t connections);          /* in a worker; 0: no bound */
ngx_int_t sublet_id_get(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data); /* ids.c */
ngx_int_t sublet_log(ngx_http_request_t *r);                                                  /* LOG phase */
