/* SPDX-License-Identifier: Apache-2.0 */
/* Formulas of other routers: their choice among candidates, as route/choose.h declares those of our policies. */
#pragma once

#include "route/choose.h"

#define POLICY(id, name, is_patient, is_blind) uint32_t choose_##id(const struct choice *choice);
#include "rivals.def"
#undef POLICY
