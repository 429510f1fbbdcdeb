/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics. All names begin with sublet_route_: names of the engines are never reused. */
#include "route/nginx/module.h"

#include "net/metrics.h"

enum {
        ROOM = 256 * 1024,
};

static void count(FILE *to, const char *name, const char *type, const char *help, double value)
{
        metrics_head(to, name, type, help);
        metrics_value(to, name, value, NULL);
}

static void histogram(FILE *to, const char *name, const char *help, const struct pool_histogram *h)
{
        double bounds[POOL_BUCKETS];
        uint64_t counts[POOL_BUCKETS + 1];
        const struct metrics_histogram is = { bounds, counts, POOL_BUCKETS, (double)h->sum_usec / 1e6 };

        for (size_t i = 0; i < POOL_BUCKETS; i++)
                bounds[i] = POOL_BOUNDS_USEC[i] / 1e6;
        for (size_t i = 0; i <= POOL_BUCKETS; i++)
                counts[i] = h->count[i];
        metrics_head(to, name, "histogram", help);
        metrics_histogram(to, name, &is, NULL, NULL);
}

static const struct {
        const char *name, *type, *help;
} FIGURES[] = {
        { "sublet_route_replica_up", "gauge", "1 if it takes requests" },
        { "sublet_route_replica_asleep", "gauge", "1 if it must be woken first" },
        { "sublet_route_replica_inflight", "gauge", "requests sent and not ended" },
        { "sublet_route_replica_prefilling", "gauge", "of these, without a first byte" },
        { "sublet_route_replica_wanted", "gauge", "requests held that wait for it" },
        { "sublet_route_replica_backlog_work", "gauge", "prefill work sent and not known to be done" },
        { "sublet_route_replica_rate_work_per_second", "gauge", "prefill rate as learned" },
        { "sublet_route_replica_cached_blocks", "gauge", "blocks of text it is believed to have cached" },
        { "sublet_route_replica_requests_total", "counter", "requests sent" },
        { "sublet_route_replica_failures_total", "counter", "tries that failed there" },
        { "sublet_route_replica_prompt_tokens_total", "counter", "prompt tokens sent, by bytes of text" },
        { "sublet_route_replica_matched_tokens_total", "counter", "of these, believed to be cached there" },
};

enum {
        N_FIGURES = sizeof(FIGURES) / sizeof(FIGURES[0]),
};

/* The figures of a replica, in the order of FIGURES. */
static void figures_of(const struct pool *pool, int i, double ret[N_FIGURES])
{
        const struct pool_replica *r = &pool->replicas[i];
        nsec now = clock_now();
        enum pick_state state = pool_state(pool, i, now);
        const double figures[N_FIGURES] = {
                state == PICK_UP,
                state == PICK_ASLEEP,
                (double)pool_load(pool, i, POOL_INFLIGHT),
                (double)pool_load(pool, i, POOL_UNANSWERED),
                (double)pool_load(pool, i, POOL_WANTED),
                rate_backlog(&r->rate, now),
                rate_now(&r->rate),
                (double)index_count(pool->index, (unsigned int)i),
                (double)r->sent,
                (double)r->failed,
                (double)r->prompted,
                (double)r->matched,
        };

        ngx_memcpy(ret, figures, sizeof(figures));
}

static void replicas(FILE *to, const struct pool *pool)
{
        static struct pool_config config[POOL_REPLICAS];
        static double figures[POOL_REPLICAS][N_FIGURES];
        uint64_t there = 0;

        for (int i = 0; i < POOL_REPLICAS; i++)
                if (pool->replicas[i].slot_state == POOL_USED && pool_read(pool, i, &config[i])) {
                        there |= 1ull << i;
                        figures_of(pool, i, figures[i]);
                }
        for (size_t k = 0; k < N_FIGURES; k++) {
                metrics_head(to, FIGURES[k].name, FIGURES[k].type, FIGURES[k].help);
                for (uint64_t left = there; left; left &= left - 1) {
                        int i = __builtin_ctzll(left);

                        metrics_value(to, FIGURES[k].name, figures[i][k], "replica", config[i].name, NULL);
                }
        }
}

ngx_int_t sublet_metrics(ngx_http_request_t *r, struct pool *pool)
{
        u_char *text = ngx_pnalloc(r->pool, ROOM);
        FILE *to = text ? fmemopen(text, ROOM, "w") : NULL;
        long size;

        if (!to)
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
        metrics_head(to, "sublet_route_requests_total", "counter", "requests by how they ended");
        for (int i = 0; i < POOL_OUTCOMES; i++)
                metrics_value(to, "sublet_route_requests_total", (double)pool->outcomes[i], "outcome",
                              POOL_OUTCOME_NAMES[i], NULL);
        count(to, "sublet_route_held", "gauge", "requests held for a slot or for a replica that sleeps",
              (double)pool_load(pool, POOL_ALL, POOL_HELD));
        count(to, "sublet_route_holds_total", "counter", "requests that were held", (double)pool->holds);
        count(to, "sublet_route_retries_total", "counter", "tries after a failed one", (double)pool->retries);
        count(to, "sublet_route_routers", "gauge", "other routers that are heard",
              (double)pool_routers(pool, clock_now()));
        replicas(to, pool);
        histogram(to, "sublet_route_first_byte_seconds", "from arrival to the first byte of the answer's body",
                  &pool->first);
        histogram(to, "sublet_route_token_seconds", "between the events of a streamed answer, mean of a request",
                  &pool->token);
        histogram(to, "sublet_route_held_seconds", "held before it was sent", &pool->held);
        histogram(to, "sublet_route_decision_seconds", "to scan, hash, match and decide", &pool->decision);
        size = ftell(to);
        (void)fclose(to);
        return sublet_send(r, 200, "text/plain; version=0.0.4", text, size > 0 ? (size_t)size : 0);
}
