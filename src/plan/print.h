/* SPDX-License-Identifier: Apache-2.0 */
/* A plan, for people and for programs. */
#pragma once

#include "plan/plan.h"

#include <jansson.h>
#include <stdio.h>

void plan_print(FILE *to, const struct plan *plan);

/* The caller's; NULL: no memory. */
json_t *plan_json(const struct plan *plan);

/* The plan as commands for a shell, and as Deployments for kubectl; COMMAND and IMAGE are left to fill in. */
void plan_print_commands(FILE *to, const struct plan *plan);
void plan_print_kubernetes(FILE *to, const struct plan *plan);
