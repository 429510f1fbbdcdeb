/* SPDX-License-Identifier: Apache-2.0 */
/* The types of CUDA's driver API that calls.def needs; layouts of the public ABI, CUDA 12.4 to 13.0. */
#pragma once

#include <stdint.h>

typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUstream_st *CUstream;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef int CUdevice;
typedef int CUresult; /* an enum in cuda.h */

enum {
        CUDA_SUCCESS = 0,
        CUDA_ERROR_INVALID_VALUE = 1,
        CUDA_ERROR_OUT_OF_MEMORY = 2,
        CUDA_ERROR_NOT_FOUND = 500,
        CUDA_ERROR_NOT_SUPPORTED = 801,

        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
        CU_DEV_RESOURCE_TYPE_SM = 1,
        CU_GREEN_CTX_DEFAULT_STREAM = 1,
};

typedef struct {
        int type;
        unsigned char padding[92];
        unsigned int sms;
        unsigned char rest[44];
} CUdevResource;

_Static_assert(sizeof(CUdevResource) == 144 && __builtin_offsetof(CUdevResource, sms) == 96, "the layout is CUDA's");
