/* SPDX-License-Identifier: Apache-2.0 */
/* The measured figures of a device, as text and as the file that `sublet plan --facts=FILE` reads. */
#pragma once

#include "bench/measure.h"

#include <stdio.h>

struct table_row {
        bool is_had;
        double value;
        char why[240]; /* it is not */
};

struct table {
        char device[64], driver[64], date[32];
        bool is_simulated;
        struct table_row rows[MEASURE_N];
};

const char *table_name(enum measure_row row);
void table_print_all(FILE *to, const struct table *table);
void table_print_row(FILE *to, const struct table *table, enum measure_row row);
json_t *table_json(const struct table *table); /* the caller's */
