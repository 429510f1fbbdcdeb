/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format, 0.0.4, written to a stream.
 *
 *      metrics_head(to, "sublet_tenant_held_bytes", "gauge", "Memory held.");
 *      metrics_value(to, "sublet_tenant_held_bytes", held, "tenant", name, "device", "0", NULL);
 *
 * Threads: as the stream's. libc only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* help: NULL is none. */
void metrics_head(FILE *to, const char *name, const char *type, const char *help);

/* Labels are pairs of a name and a value, of any bytes; what is not UTF-8 becomes U+FFFD. NULL ends them. A whole
 * number is written as such, up to where a double is exact (9e15). */
void metrics_value(FILE *to, const char *name, double value, ...) __attribute__((sentinel));

struct metrics_label {
        const char *name, *value; /* value: any bytes; NULL: the label is left out */
};

void metrics_series(FILE *to, const char *name, double value, const struct metrics_label *labels, size_t n);

struct metrics_histogram {
        const double *bounds;   /* of the buckets, rising, in the metric's unit */
        const uint64_t *counts; /* one more than bounds: of each bucket, those below it not included */
        size_t n_bounds;
        double sum;
};

/* The series of one histogram: _bucket, _sum and _count. label NULL: none but "le". */
void metrics_histogram(FILE *to, const char *name, const struct metrics_histogram *histogram, const char *label,
                       const char *value);
