/* SPDX-License-Identifier: Apache-2.0 */
/* Exporting memory of cuMemCreate; in pool_share.c, for virtual.c. */
#pragma once

#include "sim/cuda/memory/memory.h"

CUresult share_memory(struct memory *memory, int *ret);
CUresult share_memory_import(struct device *device, int fd, struct memory **ret);
