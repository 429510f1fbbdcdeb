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

typedef double (*sublet_figure_pt)(const struct pool *pool, int i);

static double is_up(const struct pool *pool, int i)
{
        return pool_state(pool, i, clock_now()) == PICK_UP;
}

static double is_asleep(const struct pool *pool, int i)
{
        return pool_state(pool, i, clock_now()) == PICK_ASLEEP;
}

static double inflight(const struct pool *pool, int i)
{
        return (double)pool_load(pool, i, POOL_INFLIGHT);
}

static double unanswered(const struct pool *pool, int i)
{
        return (double)pool_load(pool, i, POOL_UNANSWERED);
}

static double wanted(const struct pool *pool, int i)
{
        return (double)pool_load(pool, i, POOL_WANTED);
}

static double backlog(const struct pool *pool, int i)
{
        return rate_backlog(&pool->replicas[i].rate, clock_now());
}

static double rate(const struct pool *pool, int i)
{
        return rate_now(&pool->replicas[i].rate);
}

static double sent(const struct pool *pool, int i)
{
        return (double)pool->replicas[i].sent;
}

static double failed(const struct pool *pool, int i)
{
        return (double)pool->replicas[i].failed;
}

static double prompted(const struct pool *pool, int i)
{
        return (double)pool->replicas[i].prompted;
}

static double matched(const struct pool *pool, int i)
{
        return (double)pool->replicas[i].matched;
}

static double cached(const struct pool *pool, int i)
{
        return (double)index_count(pool->index, (unsigned int)i);
}

static const struct {
        const char *name, *type, *help;
        sublet_figure_pt figure;
} FIGURES[] = {
        { "replica_up", "gauge", "1 if it takes requests", is_up },
        { "replica_asleep", "gauge", "1 if it must be woken first", is_asleep },
        { "replica_inflight", "gauge", "requests sent and not ended", inflight },
        { "replica_prefilling", "gauge", "of these, without a first byte", unanswered },
        { "replica_wanted", "gauge", "requests held that wait for it", wanted },
        { "replica_backlog_work", "gauge", "prefill work sent and not known to be done", backlog },
        { "replica_rate_work_per_second", "gauge", "prefill rate as learned", rate },
        { "replica_cached_blocks", "gauge", "blocks of text it is believed to have cached", cached },
        { "replica_requests_total", "counter", "requests sent", sent },
        { "replica_failures_total", "counter", "tries that failed there", failed },
        { "replica_prompt_tokens_total", "counter", "prompt tokens sent, by bytes of text", prompted },
        { "replica_matched_tokens_total", "counter", "of these, believed to be cached there", matched },
};

static void replicas(sheet_t *sheet, const struct pool *pool)
{
        static struct pool_config config[POOL_REPLICAS];
        uint64_t there = 0;

        for (int i = 0; i < POOL_REPLICAS; i++)
                if (pool->replicas[i].slot_state == POOL_USED && pool_read(pool, i, &config[i]))
                        there |= 1ull << i;
        for (size_t k = 0; k < sizeof(FIGURES) / sizeof(FIGURES[0]); k++) {
                head(sheet, FIGURES[k].name, FIGURES[k].type, FIGURES[k].help);
                for (uint64_t left = there; left; left &= left - 1) {
                        int i = __builtin_ctzll(left);

                        say(sheet, "sublet_route_%s{replica=\"%s\"} %.10g\n", FIGURES[k].name, config[i].name,
                            FIGURES[k].figure(pool, i));
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
