/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/stats.h"

#include "base/cleanup.h"
#include "kube/client/informer.h"
#include "net/metrics.h"

static const double bounds[STATS_BUCKETS] = { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2 };

void stats_count(struct stats *stats, enum stats_verb verb, nsec took, int is_failure)
{
        nsec usec = took / NSEC_PER_USEC;
        size_t i = 0;

        while (i < STATS_BUCKETS && (double)usec > bounds[i] * 1e6)
                i++;
        atomic_fetch_add(&stats->verbs[verb].buckets[i], 1);
        atomic_fetch_add(&stats->verbs[verb].sum_usec, (unsigned long)usec);
        if (is_failure)
                atomic_fetch_add(&stats->verbs[verb].n_failed, 1);
}

void stats_write(struct stats *stats, FILE *to)
{
        static const char *const names[STATS_VERBS] = { "filter", "prioritize", "bind", "preempt", "inspect" };

        metrics_head(to, "sublet_extender_failures_total", "counter", NULL);
        for (size_t v = 0; v < STATS_VERBS; v++)
                metrics_value(to, "sublet_extender_failures_total", (double)atomic_load(&stats->verbs[v].n_failed),
                              "verb", names[v], NULL);
        metrics_head(to, "sublet_extender_seconds", "histogram", NULL);
        for (size_t v = 0; v < STATS_VERBS; v++) {
                uint64_t counts[STATS_BUCKETS + 1];
                struct metrics_histogram histogram = { bounds, counts, STATS_BUCKETS,
                                                       (double)atomic_load(&stats->verbs[v].sum_usec) / 1e6 };

                for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
                        counts[i] = atomic_load(&stats->verbs[v].buckets[i]);
                metrics_histogram(to, "sublet_extender_seconds", &histogram, "verb", names[v]);
        }
}

static void write_gauge(FILE *to, const char *name, double value)
{
        metrics_head(to, name, "gauge", NULL);
        metrics_value(to, name, value, NULL);
}

void stats_write_cluster(const struct extend *extend, bool is_leader, bool is_ready, FILE *to)
{
        struct extend_totals totals;

        extend_count(extend, &totals);
        write_gauge(to, "sublet_extender_leader", is_leader);
        write_gauge(to, "sublet_extender_ready", is_ready);
        write_gauge(to, "sublet_extender_nodes", (double)extend->cluster.n_nodes);
        write_gauge(to, "sublet_extender_pods", (double)extend->cluster.n_pods);
        write_gauge(to, "sublet_extender_assumed_pods", (double)extend->cluster.n_assumed);
        write_gauge(to, "sublet_extender_unplaced_pods", (double)totals.n_unplaced);
        write_gauge(to, "sublet_extender_memory_bytes", (double)totals.memory);
        write_gauge(to, "sublet_extender_memory_rented_bytes", (double)totals.rented);
}

void stats_write_informers(struct informer *nodes, struct informer *pods, FILE *to)
{
        const struct {
                const char *name;
                atomic_uint *of_nodes, *of_pods;
        } families[] = { { "sublet_extender_lists_total", &nodes->n_lists, &pods->n_lists },
                         { "sublet_extender_streams_total", &nodes->n_streams, &pods->n_streams },
                         { "sublet_extender_events_total", &nodes->n_events, &pods->n_events } };

        for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
                metrics_head(to, families[i].name, "counter", NULL);
                metrics_value(to, families[i].name, atomic_load(families[i].of_nodes), "path", nodes->watch.path, NULL);
                metrics_value(to, families[i].name, atomic_load(families[i].of_pods), "path", pods->watch.path, NULL);
        }
}
