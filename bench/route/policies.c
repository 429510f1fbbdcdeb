/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router's policies and, beside them, the formulas of other routers. Linked into a program, this table takes the
 * place of the one in src/route/policies.c.
 */
#include "rivals.h"

const struct pick_policy PICK_POLICIES[] = {
#define POLICY(id, name, is_patient, is_blind) { name, is_patient, is_blind, choose_##id },
#include "route/policies.def"
#include "rivals.def"
#undef POLICY
        { 0 },
};
