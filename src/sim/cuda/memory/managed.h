/* Managed memory: see managed.c. */
#pragma once

#include "sim/cuda/memory/memory.h"

void managed_end(struct allocation *allocation);
