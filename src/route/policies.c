/* SPDX-License-Identifier: Apache-2.0 */
#include "route/choose.h"

const struct pick_policy PICK_POLICIES[] = {
#define POLICY(id, name, is_patient, is_blind) { name, is_patient, is_blind, choose_##id },
#include "route/policies.def"
#undef POLICY
        { 0 },
};
