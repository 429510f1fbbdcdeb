/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made loads: sessions of turns. Sessions begin by a Poisson process whose rate has a shape in time. Each belongs to a
 * tenant, whose prompts begin alike; each turn's prompt is the one before it, the answer, and what is new.
 *
 * Lengths are uniform in a range, but for the skewed ones, of which most are near the lower end. All is a function of
 * the mix and the seed.
 */
#pragma once

#include "simulator/load.h"

enum mix_shape {
        MIX_STEADY,
        MIX_BURSTS, /* `peak` times the rate in the first `part` of each period */
        MIX_DAY,    /* from the rate up to `peak` times of it and down again, in straight lines, each period */
};

struct mix_range {
        uint32_t from, to; /* tokens */
};

struct load_mix {
        double seconds; /* what begins later is left out */
        double qps;     /* sessions per second */
        enum mix_shape shape;
        double peak, period, part;
        uint32_t tenants; /* 0: nothing is shared between sessions. Half of the sessions are of an eighth of them */
        struct mix_range common; /* beginning that a tenant's prompts share */
        struct mix_range turns;  /* per session; { 0 }: one */
        double pause;            /* mean seconds from an answer to the next turn */
        struct mix_range own;    /* skewed: the first turn's own part */
        struct mix_range more;   /* skewed: what is new in each further turn */
        struct mix_range answer; /* skewed */
        double long_part;        /* of the sessions, with `lengthy` in place of `own` */
        struct mix_range lengthy;
};

int mix_make(const struct load_mix *mix, uint64_t seed, struct load *ret); /* -ENOMEM */
