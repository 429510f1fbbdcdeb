/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that this worker has sent and that no replica has begun to answer. Those of a replica that was put out, or
 * whose first byte is overdue, are taken from it and go elsewhere. What has nowhere else to go stays, since it may
 * still be answered; but not with a replica that has begun its head and does not end it.
 */
#include "route/nginx/module.h"

#define OVERDUE_AGAIN NSEC_PER_SEC /* asked again whether it can go elsewhere */

static ngx_queue_t sent;

void sublet_watch_init(void)
{
        ngx_queue_init(&sent);
}

int sublet_watch_is_empty(void)
{
        return ngx_queue_empty(&sent);
}

void sublet_watch(sublet_ctx_t *ctx)
{
        ngx_queue_insert_tail(&sent, &ctx->sent);
        ctx->is_sent = 1;
}

void sublet_unwatch(sublet_ctx_t *ctx)
{
        if (ctx->is_sent) {
                ngx_queue_remove(&ctx->sent); /* two statements */
        }
        ctx->is_sent = 0;
}

/* nginx goes on as after a timeout of the replica. */
static void take_away(sublet_ctx_t *ctx, enum answer answer)
{
        ngx_connection_t *c = ctx->request->upstream ? ctx->request->upstream->peer.connection : NULL;

        if (!c)
                return;
        ctx->answer = answer;
        ctx->is_bought = 1;
        sublet_unwatch(ctx);
        sublet_quiet(ctx);
        c->read->timedout = 1;
        ngx_post_event(c->read, &ngx_posted_events);
}

/* It has begun its head, and not ended it. One of 1xx was another. */
static int trickles(const sublet_ctx_t *ctx)
{
        const ngx_http_upstream_t *u = ctx->request->upstream;

        return u && !ctx->has_head && u->buffer.start &&
               u->buffer.last > (ctx->head_from ? ctx->head_from : u->buffer.start);
}

static void look_at(sublet_ctx_t *ctx, nsec now)
{
        struct pool_request others = ctx->query;
        int is_out = pool_is_out(ctx->pool, ctx->at);

        if (!is_out && now < ctx->first_by)
                return;
        others.tried |= 1ull << ctx->at;
        if (!pool_has_other(ctx->pool, &others, now)) {
                if (!is_out && trickles(ctx)) {
                        ctx->is_given_up = 1;
                        take_away(ctx, ANSWER_SILENT);
                }
                return;
        }
        if (is_out) {
                take_away(ctx, ANSWER_MOVED);
        } else if (sublet_may_buy(ctx, now)) {
                sublet_gave_up(ctx, now);
                take_away(ctx, ANSWER_SILENT);
        } else {
                ctx->first_by = now + OVERDUE_AGAIN;
        }
}

/* Nothing is resumed here: the walk is safe (Q2). */
void sublet_watch_scan(void)
{
        nsec now = clock_now();

        for (ngx_queue_t *q = ngx_queue_head(&sent), *next; q != ngx_queue_sentinel(&sent); q = next) {
                next = ngx_queue_next(q);
                look_at(ngx_queue_data(q, sublet_ctx_t, sent), now);
        }
}
