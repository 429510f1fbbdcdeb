/* A plan, for people and for programs. */
#pragma once

#include "plan/plan.h"

#include <jansson.h>
#include <stdio.h>

void plan_say(FILE *to, const struct plan *plan);

/* The caller's; NULL: no memory. */
json_t *plan_json(const struct plan *plan);

/* The command that starts the replica as the plan has it: "sublet run --gpu 0 --mem 8G ...". */
void plan_command(const struct plan *plan, size_t device, const struct plan_seat *seat, char *ret, size_t size);
