/* What Prometheus asks. Names are ours: an engine's are never reused. */
#include "route/nginx/module.h"

enum {
        ROOM = 256 * 1024,
};

typedef struct {
        u_char *at, *end;
} sheet_t;

static void __attribute__((format(printf, 2, 3))) say(sheet_t *sheet, const char *format, ...)
{
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vsnprintf((char *)sheet->at, (size_t)(sheet->end - sheet->at), format, arguments);
        va_end(arguments);
        if (n > 0)
                sheet->at += ngx_min((size_t)n, (size_t)(sheet->end - sheet->at));
}

static void head(sheet_t *sheet, const char *name, const char *type, const char *help)
{
        say(sheet, "# HELP sublet_route_%s %s\n# TYPE sublet_route_%s %s\n", name, help, name, type);
}

static void histogram(sheet_t *sheet, const char *name, const char *help, const struct pool_histogram *h)
{
        uint64_t n = 0;

        head(sheet, name, "histogram", help);
        for (size_t i = 0; i < POOL_BUCKETS; i++) {
                n += h->count[i];
                say(sheet, "sublet_route_%s_bucket{le=\"%g\"} %lu\n", name, POOL_BOUNDS_USEC[i] / 1e6, n);
        }
        n += h->count[POOL_BUCKETS];
        say(sheet, "sublet_route_%s_bucket{le=\"+Inf\"} %lu\nsublet_route_%s_sum %g\nsublet_route_%s_count %lu\n", name,
            n, name, (double)h->sum_usec / 1e6, name, n);
}

static const struct {
        const char *name, *type, *help;
} FIGURES[] = {
        { "replica_up", "gauge", "1 if it takes requests" },
        { "replica_asleep", "gauge", "1 if it must be woken first" },
        { "replica_inflight", "gauge", "requests sent and not ended" },
        { "replica_prefilling", "gauge", "of these, without a first byte" },
        { "replica_wanted", "gauge", "requests held that wait for it" },
        { "replica_backlog_work", "gauge", "prefill work sent and not known to be done" },
        { "replica_rate_work_per_second", "gauge", "prefill rate as learned" },
        { "replica_cached_blocks", "gauge", "blocks of text it is believed to have cached" },
        { "replica_requests_total", "counter", "requests sent" },
        { "replica_failures_total", "counter", "tries that failed there" },
        { "replica_prompt_tokens_total", "counter", "prompt tokens sent, by bytes of text" },
        { "replica_matched_tokens_total", "counter", "of these, believed to be cached there" },
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

static void replicas(sheet_t *sheet, const struct pool *pool)
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
                head(sheet, FIGURES[k].name, FIGURES[k].type, FIGURES[k].help);
                for (uint64_t left = there; left; left &= left - 1) {
                        int i = __builtin_ctzll(left);

                        say(sheet, "sublet_route_%s{replica=\"%s\"} %.10g\n", FIGURES[k].name, config[i].name,
                            figures[i][k]);
                }
        }
}

ngx_int_t sublet_metrics(ngx_http_request_t *r, struct pool *pool)
{
        u_char *text = ngx_pnalloc(r->pool, ROOM);
        sheet_t sheet = { text, text + ROOM };

        if (!text)
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
        head(&sheet, "requests_total", "counter", "requests by how they ended");
        for (int i = 0; i < POOL_OUTCOMES; i++)
                say(&sheet, "sublet_route_requests_total{outcome=\"%s\"} %lu\n", POOL_OUTCOME_NAMES[i],
                    pool->outcomes[i]);
        head(&sheet, "held", "gauge", "requests held for a place or for a replica that sleeps");
        say(&sheet, "sublet_route_held %ld\n", pool_load(pool, POOL_ALL, POOL_INFLIGHT));
        head(&sheet, "holds_total", "counter", "requests that were held");
        say(&sheet, "sublet_route_holds_total %lu\n", pool->holds);
        head(&sheet, "retries_total", "counter", "tries after a failed one");
        say(&sheet, "sublet_route_retries_total %lu\n", pool->retries);
        replicas(&sheet, pool);
        histogram(&sheet, "first_byte_seconds", "from arrival to the first byte of the answer's body", &pool->first);
        histogram(&sheet, "token_seconds", "between the events of a streamed answer, mean of a request", &pool->token);
        histogram(&sheet, "held_seconds", "held before it was sent", &pool->held);
        histogram(&sheet, "decision_seconds", "to scan, hash, match and decide", &pool->decision);
        return sublet_send(r, 200, "text/plain; version=0.0.4", text, (size_t)(sheet.at - text));
}
