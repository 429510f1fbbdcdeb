/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory: see managed.c. */
#pragma once

#include "sim/cuda/memory/memory.h"

void managed_end(struct allocation *allocation);
