#include "kube/extender/stats.h"

static const unsigned long limits_usec[STATS_BUCKETS] = { 500,   1000,  2500,   5000,   10000,
                                                          25000, 50000, 100000, 500000, 2000000 };

void stats_count(struct stats *stats, enum stats_verb verb, nsec took, int is_failure)
{
        unsigned long usec = (unsigned long)(took / NSEC_PER_USEC);

        atomic_fetch_add(&stats->verbs[verb].n, 1);
        atomic_fetch_add(&stats->verbs[verb].sum_usec, usec);
        if (is_failure)
                atomic_fetch_add(&stats->verbs[verb].n_failed, 1);
        for (size_t i = 0; i < STATS_BUCKETS; i++)
                if (usec <= limits_usec[i])
                        atomic_fetch_add(&stats->verbs[verb].buckets[i], 1);
}

void stats_write(struct stats *stats, FILE *to)
{
        static const char *const names[STATS_VERBS] = { "filter", "prioritize", "bind", "preempt", "inspect" };

        (void)fprintf(to, "# TYPE sublet_extender_failures_total counter\n");
        for (size_t v = 0; v < STATS_VERBS; v++)
                (void)fprintf(to, "sublet_extender_failures_total{verb=\"%s\"} %lu\n", names[v],
                              atomic_load(&stats->verbs[v].n_failed));
        (void)fprintf(to, "# TYPE sublet_extender_seconds histogram\n");
        for (size_t v = 0; v < STATS_VERBS; v++) {
                unsigned long n = atomic_load(&stats->verbs[v].n);

                for (size_t i = 0; i < STATS_BUCKETS; i++)
                        (void)fprintf(to, "sublet_extender_seconds_bucket{verb=\"%s\",le=\"%g\"} %lu\n", names[v],
                                      (double)limits_usec[i] / 1e6, atomic_load(&stats->verbs[v].buckets[i]));
                (void)fprintf(to, "sublet_extender_seconds_bucket{verb=\"%s\",le=\"+Inf\"} %lu\n", names[v], n);
                (void)fprintf(to, "sublet_extender_seconds_sum{verb=\"%s\"} %.6f\n", names[v],
                              (double)atomic_load(&stats->verbs[v].sum_usec) / 1e6);
                (void)fprintf(to, "sublet_extender_seconds_count{verb=\"%s\"} %lu\n", names[v], n);
        }
}

void stats_write_cluster(const struct extend *extend, bool is_leader, bool is_ready, FILE *to)
{
        struct extend_totals totals;

        extend_count(extend, &totals);
        (void)fprintf(to,
                      "# TYPE sublet_extender_leader gauge\nsublet_extender_leader %d\n"
                      "# TYPE sublet_extender_ready gauge\nsublet_extender_ready %d\n"
                      "# TYPE sublet_extender_nodes gauge\nsublet_extender_nodes %zu\n"
                      "# TYPE sublet_extender_pods gauge\nsublet_extender_pods %zu\n"
                      "# TYPE sublet_extender_assumed_pods gauge\nsublet_extender_assumed_pods %zu\n"
                      "# TYPE sublet_extender_unplaced_pods gauge\nsublet_extender_unplaced_pods %zu\n"
                      "# TYPE sublet_extender_memory_bytes gauge\nsublet_extender_memory_bytes %llu\n"
                      "# TYPE sublet_extender_memory_rented_bytes gauge\nsublet_extender_memory_rented_bytes %llu\n",
                      is_leader, is_ready, extend->cluster.n_nodes, extend->cluster.n_pods, extend->cluster.n_assumed,
                      totals.n_unplaced, (unsigned long long)totals.memory, (unsigned long long)totals.rented);
}
