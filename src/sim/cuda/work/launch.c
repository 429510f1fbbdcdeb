/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: parameters by value, and ops. */
#include "sim/cuda/work/module.h"

#include <stdlib.h>
#include <string.h>

enum {
        THREADS_MAX = 1024,
};

static bool is_launchable(const uint32_t grid[3], const uint32_t block[3])
{
        for (int i = 0; i < 3; i++)
                if (!grid[i] || !block[i] || block[i] > THREADS_MAX)
                        return false;
        return (uint64_t)block[0] * block[1] * block[2] <= THREADS_MAX && grid[1] <= 65535 && grid[2] <= 65535;
}

/* The packed form: CU_LAUNCH_PARAM_BUFFER_POINTER, p, CU_LAUNCH_PARAM_BUFFER_SIZE, &n,
 * CU_LAUNCH_PARAM_END. */
static CUresult copy_packed(CUfunction function, void **extra, uint8_t *to)
{
        const void *buffer = NULL;
        size_t size = 0;

        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
                if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                        buffer = extra[1];
                else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                        memcpy(&size, extra[1], sizeof(size));
                else
                        return CUDA_ERROR_INVALID_VALUE;
        }
        if (!buffer || size < function->size)
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(to, buffer, function->size);
        return CUDA_SUCCESS;
}

/* An op of a launch; the parameters are copied. The caller gives it to op_done. */
static CUresult kernel_op(CUfunction function, const uint32_t grid[3], const uint32_t block[3], void **params,
                          void **extra, struct op *ret)
{
        uint8_t *copy = NULL;
        CUresult r = CUDA_SUCCESS;

        if (!function)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!is_launchable(grid, block) || (params && extra) || (function->n_params && !params && !extra))
                return CUDA_ERROR_INVALID_VALUE;
        if (function->size) {
                copy = calloc(1, function->size);
                if (!copy)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                if (extra)
                        r = copy_packed(function, extra, copy);
                for (size_t i = 0; params && i < function->n_params; i++)
                        memcpy(copy + function->at[i], params[i], function->length[i]);
        }
        if (r != CUDA_SUCCESS) {
                free(copy);
                return r;
        }
        *ret = (struct op){ .kind = OP_KERNEL };
        ret->kernel.function = function;
        memcpy(ret->kernel.grid, grid, sizeof(ret->kernel.grid));
        memcpy(ret->kernel.block, block, sizeof(ret->kernel.block));
        ret->kernel.params = copy;
        ret->kernel.size = function->size;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                unsigned int shared_bytes, CUstream name, void **params, void **extra)
{
        LOCKED_LIBRARY;
        CUstream stream;
        struct op op;
        CUresult r = stream_enter(name, &stream);

        (void)shared_bytes;
        if (r == CUDA_SUCCESS)
                r = kernel_op(function, (uint32_t[]){ grid_x, grid_y, grid_z },
                              (uint32_t[]){ block_x, block_y, block_z }, params, extra, &op);
        if (r != CUDA_SUCCESS)
                return r;
        r = stream_submit(stream, &op);
        op_done(&op);
        return r;
}
