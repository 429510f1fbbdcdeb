/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of two processes over one descriptor: see pool_share.c. */
#pragma once

#include "sim/cuda/memory/pool.h"

/* Puts the memory of n slots into the exported descriptor. */
CUresult share_export(CUmemoryPool pool, size_t first, size_t n, struct memory *const *memory);

/* Takes the memory of those of n slots that have none out of the imported descriptor, into `ret`. */
CUresult share_import(CUmemoryPool pool, size_t first, size_t n, struct memory **ret);
