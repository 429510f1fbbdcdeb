/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was refused because it has no rule, or because the tenant lacks the capability: which numbers, how often. A
 * program that finds a part of the driver missing often takes a slower way without a word, and this is how its user
 * learns which. The first REFUSALS_MAX numbers are kept, the others are counted together. Pure; the caller locks.
 */
#pragma once

#include "rm/call.h"

enum {
        REFUSALS_MAX = 32,
};

struct refusal {
        enum rm_kind kind;       /* RM_N_KINDS: a request that is none of the driver's */
        uint32_t number;         /* of the control, the class or the request */
        unsigned int capability; /* the one that was missing; 0: it has no rule */
        uint64_t n;
};

struct refusals {
        struct refusal rows[REFUSALS_MAX]; /* in the order of their first time */
        size_t n_rows;
        uint64_t n_others;
};

/* How many calls in all. */
uint64_t refusals_count(const struct refusals *refusals);

void refusals_note(struct refusals *refusals, enum rm_kind kind, uint32_t number, unsigned int capability);
