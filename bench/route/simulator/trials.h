/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trials: loads with what happens to the replicas meanwhile, on which the router's policy is compared with the
 * formulas of other routers. The policy was tuned on those of TRIAL_TUNED. Those of TRIAL_HELD were written before the
 * policy was changed for them, and no constant was chosen by their figures.
 *
 * Seeds: 1 to 99 are for tuning, and figures that are published are of seeds from 101 on.
 */
#pragma once

#include "simulator/mix.h"
#include "simulator/run.h"

enum {
        TRIAL_CHANGES = 16,
};

enum trial_kind {
        TRIAL_TUNED,
        TRIAL_HELD,
};

struct trial {
        const char *name, *about;
        enum trial_kind kind;
        struct load_mix mix;
        size_t n_replicas;
        const double *speeds; /* NULL: all 1 */
        uint32_t blocks;      /* of 512 tokens, of a replica of speed 1 */
        bool knows_rate;      /* rates are configured; else they are learned from nothing */
        struct sim_change changes[TRIAL_CHANGES];
        size_t n_changes;
};

extern const struct trial TRIALS[]; /* ends with a name of NULL */

int trial_load(const struct trial *trial, uint64_t seed, struct load *ret); /* -ENOMEM */
struct sim_setup trial_setup(const struct trial *trial, const struct load *load, uint64_t seed);
