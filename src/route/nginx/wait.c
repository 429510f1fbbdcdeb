/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/wait of the agent's API: the state, as soon as it is another. */
#include "route/nginx/module.h"

enum {
        WAIT_MS = 30000,
        WAIT_MAX_MS = 300000,
};

/* A call that waits for the state to change. */
typedef struct {
        ngx_queue_t queue;
        ngx_http_request_t *request;
        struct pool *pool;
        ngx_event_t timer;
        uint64_t serial;
        unsigned is_waiting : 1;
} waiter_t;

static ngx_queue_t waiters;

static void stop_waiting(void *data)
{
        waiter_t *waiter = data;

        if (!waiter->is_waiting)
                return;
        waiter->is_waiting = 0;
        ngx_queue_remove(&waiter->queue);
        if (waiter->timer.timer_set) {
                ngx_del_timer(&waiter->timer);
        }
}

static void answer_waiter(waiter_t *waiter)
{
        ngx_http_request_t *r = waiter->request;
        ngx_connection_t *c = r->connection;

        stop_waiting(waiter);
        ngx_http_finalize_request(r, sublet_send_state(r, waiter->pool));
        ngx_http_run_posted_requests(c);
}

static void on_timer(ngx_event_t *event)
{
        answer_waiter(event->data);
}

void sublet_wait_init(void)
{
        ngx_queue_init(&waiters);
}

/* Answering may free any request, so the walk begins anew after each answer. */
void sublet_wait_poll(void)
{
        ngx_queue_t *q = ngx_queue_head(&waiters);

        while (q != ngx_queue_sentinel(&waiters)) {
                waiter_t *waiter = ngx_queue_data(q, waiter_t, queue);

                q = ngx_queue_next(q);
                if (waiter->serial != waiter->pool->serial || ngx_exiting) {
                        answer_waiter(waiter);
                        q = ngx_queue_head(&waiters);
                }
        }
}

ngx_int_t sublet_wait(ngx_http_request_t *r, struct pool *pool)
{
        uint64_t serial = sublet_argument(r, "serial", 0), timeout = sublet_argument(r, "timeout_ms", WAIT_MS);
        ngx_pool_cleanup_t *c;
        waiter_t *waiter;

        if (serial != pool->serial || !timeout)
                return sublet_send_state(r, pool);
        c = ngx_pool_cleanup_add(r->pool, sizeof(waiter_t));
        if (!c)
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
        waiter = c->data;
        ngx_memzero(waiter, sizeof(*waiter));
        c->handler = stop_waiting;
        waiter->request = r;
        waiter->pool = pool;
        waiter->serial = serial;
        waiter->timer =
                (ngx_event_t){ .handler = on_timer, .data = waiter, .log = r->connection->log, .cancelable = 1 };
        waiter->is_waiting = 1;
        ngx_queue_insert_tail(&waiters, &waiter->queue);
        ngx_add_timer(&waiter->timer, (ngx_msec_t)ngx_min(timeout, (uint64_t)WAIT_MAX_MS));
        r->read_event_handler = ngx_http_test_reading;
        r->main->count++;
        return NGX_DONE;
}
