/* SPDX-License-Identifier: Apache-2.0 */
/* A policy's choice among candidates. For policies only; callers include route/pick.h. */
#pragma once

#include "route/pick.h"

struct choice {
        const struct pick_view *view;
        size_t n; /* >= 2 when a policy is called */
        bool is_blind;
        uint16_t list[PICK_REPLICAS_MAX]; /* indices into view->replicas, ascending */
};

/* Each returns one of choice->list. */
#define POLICY(id, name, is_patient, is_blind) uint32_t choose_##id(const struct choice *choice);
#include "route/policies.def"
#undef POLICY

double choose_rate(const struct pick_replica *r); /* > 0 */

bool choose_is_full(const struct pick_replica *r);

/* Work of the part of the prompt that r has not cached; at least tuning->least. */
double choose_work(const struct pick_view *view, const struct pick_replica *r);

/* The candidate with the least price; among equals one at random. */
uint32_t choose_least(const struct choice *choice, double (*price)(const struct choice *, const struct pick_replica *));
