/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: memory that only copies can access. Bytes are stored row after row. */
#pragma once

#include "sim/cuda/memory/memory.h"

struct CUarray_st {
        CUDA_ARRAY3D_DESCRIPTOR shape;
        size_t element, pitch, slice; /* bytes: of an element, from row to row, from slice to slice */
        CUcontext context;
        struct allocation *memory; /* freed with the context at the latest */
        uint64_t offset;           /* in it: of a level of a mipmap */
        CUmipmappedArray mipmap;   /* whose level this is; NULL: its own */
};

uint8_t *array_bytes(CUarray array); /* NULL: the simulator has ended */
