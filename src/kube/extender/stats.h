/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extender's metrics, in Prometheus' text format 0.0.4.
 *
 * Threads: any; each figure is atomic by itself.
 */
#pragma once

#include "base/clock.h"
#include "kube/extender/extend.h"

#include <stdatomic.h>
#include <stdio.h>

struct informer;

enum stats_verb { STATS_FILTER, STATS_PRIORITIZE, STATS_BIND, STATS_PREEMPT, STATS_INSPECT, STATS_VERBS };

enum {
        STATS_BUCKETS = 10,
};

struct stats {
        struct {
                atomic_ulong n_failed, sum_usec, buckets[STATS_BUCKETS + 1]; /* calls, each in one bucket */
        } verbs[STATS_VERBS];
};

void stats_count(struct stats *stats, enum stats_verb verb, nsec took, int is_failure);
void stats_write(struct stats *stats, FILE *to);

/* Gauges of what the cluster has and has rented. Under the lock of `extend`. */
void stats_write_cluster(const struct extend *extend, bool is_leader, bool is_ready, FILE *to);

/* How often each was listed, watched and told of a change. */
void stats_write_informers(struct informer *nodes, struct informer *pods, FILE *to);
