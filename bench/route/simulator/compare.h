/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comparison on the trials: TTFT mean and p99, and goodput, of our policy and of each other router's formula, as
 * means over seeds; and ours in proportion to the best of the others, each figure for itself.
 */
#pragma once

#include "base/err.h"
#include "simulator/run.h"

#include <stdbool.h>

struct compare_options {
        unsigned int first_seed, n_seeds;
        const char *trial;      /* one of them; NULL: all */
        const char *policy;     /* one formula; NULL: all, and the proportions */
        unsigned int n_routers; /* 0: one */
        bool is_apart;          /* they share nothing */
        bool is_without_index;  /* they share all but that */
        bool has_one_index;     /* at once: a bound */
        bool is_even;           /* the others see no more than ours does */
        enum sim_index index;   /* of ours: INDEX_OURS, INDEX_COPY, INDEX_BOTH */
};

/* Prints to stdout. 0; 1: ours is not what docs/router-policy.md says; negative: could not run. */
int compare_run(const struct compare_options *options, struct err *err);
