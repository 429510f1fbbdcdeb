/* SPDX-License-Identifier: Apache-2.0 */
/* Where a device is plugged in, as the kernel says. */
#pragma once

#include "rm/encode.h"

#include <stddef.h>

/* The NUMA node of its slot; -1: it has none, or there is no such slot (the simulator). */
int slot_numa(const struct rm_device *device);

/* What is touched there for the first time comes from that node, as long as it has memory; else from another one. Only
 * a wish: the kernel may not know nodes, or not let us. node -1: none. */
void slot_memory_at(int node, void *memory, size_t size);
