/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong: the driver's statuses as CUDA's, and CUDA's as text. */
#include "rm/numbers.h"
#include "sim/cuda/state.h"

#define RM_STATUS_GPU_IS_LOST 0x0fu
#define RM_STATUS_INVALID_STATE 0x40u

CUresult result_of(uint32_t status)
{
        switch (status) {
        case RM_STATUS_OK:
                return CUDA_SUCCESS;
        case RM_STATUS_NO_MEMORY:
        case RM_STATUS_INSUFFICIENT_RESOURCES:
                return CUDA_ERROR_OUT_OF_MEMORY;
        case RM_STATUS_INSUFFICIENT_PERMISSIONS:
                return CUDA_ERROR_NOT_PERMITTED;
        case RM_STATUS_INVALID_ARGUMENT:
                return CUDA_ERROR_INVALID_VALUE;
        case RM_STATUS_NOT_SUPPORTED:
                return CUDA_ERROR_NOT_SUPPORTED;
        case RM_STATUS_INVALID_STATE:
                return CUDA_ERROR_ILLEGAL_STATE;
        case NV_LOST:
                return CUDA_ERROR_OPERATING_SYSTEM;
        case RM_STATUS_GPU_IS_LOST:
        default:
                return CUDA_ERROR_UNKNOWN;
        }
}

struct text {
        CUresult result;
        const char *name, *meaning;
};

static const struct text texts[] = {
#define RESULT(result, meaning) { result, #result, meaning },
#include "sim/cuda/results.def"
#undef RESULT
};

static const struct text *result_text(CUresult error)
{
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
                if (texts[i].result == error)
                        return &texts[i];
        return NULL;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text)
{
        const struct text *found = result_text(error);

        if (!text)
                return CUDA_ERROR_INVALID_VALUE;
        *text = found ? found->name : NULL;
        return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text)
{
        const struct text *found = result_text(error);

        if (!text)
                return CUDA_ERROR_INVALID_VALUE;
        *text = found ? found->meaning : NULL;
        return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
