/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills of bytes, in one, two and three dimensions. */
#pragma once

#include "sim/cuda/state.h"

enum copy_way {
        COPY_TO_DEVICE,
        COPY_TO_HOST,
        COPY_IN_DEVICE,
        COPY_IN_HOST,
};

/* CUDA_ERROR_INVALID_VALUE: something is not mapped, or a copy leaves its array. */
CUresult copy_check(const CUDA_MEMCPY3D *copy, enum copy_way *ret);
CUresult copy_bytes(const CUDA_MEMCPY3D *copy); /* after copy_check */

CUresult set_check(const CUDA_MEMSET_NODE_PARAMS *set);
CUresult set_bytes(const CUDA_MEMSET_NODE_PARAMS *set);
