/* Arrays: memory that is reached by copies only. Bytes are kept row after row. */
#pragma once

#include "sim/cuda/memory/memory.h"

struct CUarray_st {
        CUDA_ARRAY3D_DESCRIPTOR shape;
        size_t element, pitch, slice; /* bytes: of an element, from row to row, from slice to slice */
        CUcontext context;
        struct allocation *memory; /* goes with the context, if the program does not free it */
        uint64_t offset;           /* in it: of a level of a mipmap */
        CUmipmappedArray mipmap;   /* whose level this is; NULL: its own */
};

uint8_t *array_bytes(CUarray array); /* NULL: the simulator is gone */
