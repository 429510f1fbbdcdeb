/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, libraries, functions. */
#include "sim/cuda/work/module.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUlib_st {
        struct CUmod_st *module;
};

static CUmodule module_free(CUmodule module)
{
        while (module && module->functions) {
                CUfunction function = module->functions;

                module->functions = function->next;
                free(function->name);
                free(function);
        }
        free(module);
        return NULL;
}

/* Machine code and packed code are for real devices: they hold nothing that the simulator can read. */
static CUresult module_new(const void *image, CUmodule *ret)
{
        static const char elf[] = "\177ELF", packed[] = "\x50\xed\x55\xba";
        CUmodule module;
        CUresult r;

        if (!image)
                return CUDA_ERROR_INVALID_VALUE;
        if (memcmp(image, elf, 4) == 0 || memcmp(image, packed, 4) == 0)
                return CUDA_ERROR_NO_BINARY_FOR_GPU;
        module = calloc(1, sizeof(*module));
        if (!module)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = ptx_read(image, module);
        if (r != CUDA_SUCCESS) {
                (void)module_free(module);
                return r;
        }
        *ret = module;
        return CUDA_SUCCESS;
}

static CUfunction function_named(CUmodule module, const char *name)
{
        for (CUfunction function = module->functions; function; function = function->next)
                if (strcmp(function->name, name) == 0)
                        return function;
        return NULL;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        return module ? module_new(image, module) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!module)
                return CUDA_ERROR_INVALID_HANDLE;
        r = context_wait(context); /* a backlog may name its functions */
        (void)module_free(module);
        return r;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!module)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!function || !name)
                return CUDA_ERROR_INVALID_VALUE;
        *function = function_named(module, name);
        return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- libraries: modules that need no context ----------------------------------------------- */

/* ---- functions ----------------------------------------------------------------------------- */
