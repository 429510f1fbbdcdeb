/* SPDX-License-Identifier: Apache-2.0 */
/* How each figure of rows.def is measured. */
#pragma once

#include "bench/team.h"

enum measure_row {
#define ROW(name, unit, meaning) MEASURE_##name,
#include "bench/rows.def"
#undef ROW
        MEASURE_N,
};

/* Figures that several rows need, measured once; 0: not yet. */
struct measure {
        struct team *team;
        double deep, sync, half, latency, launch, alloc; /* alone on the device */
        double driver_sum;
        double total_mib; /* of the device */
};

/* *ret in the row's unit. 0; -errno: err says why this machine has no such figure. */
int measure_row(struct measure *measure, enum measure_row row, double *ret, struct err *err);
