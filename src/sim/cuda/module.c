/* Modules, libraries, functions. */
#include "sim/cuda/module.h"

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

/* Machine code and packed code are for real devices: they hold nothing that the simulator can read.
 */
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
        CUresult r = enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        return module ? module_new(image, module) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n_options, CUjit_option *options,
                                    void **values)
{
        (void)n_options;
        (void)options;
        (void)values;
        return cuModuleLoadData(module, image);
}

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *path)
{
        _cleanup_(freep) char *text = NULL;
        size_t room = 0;
        FILE *file;
        ssize_t n;

        if (!module || !path)
                return CUDA_ERROR_INVALID_VALUE;
        file = fopen(path, "re");
        if (!file)
                return CUDA_ERROR_FILE_NOT_FOUND;
        n = getdelim(&text, &room, 0, file);
        (void)fclose(file);
        return n > 4 ? cuModuleLoadData(module, text) : CUDA_ERROR_INVALID_IMAGE;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = enter(&context);

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
        CUresult r = enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!module)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!function || !name)
                return CUDA_ERROR_INVALID_VALUE;
        *function = function_named(module, name);
        return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();
        unsigned int n = 0;

        if (r != CUDA_SUCCESS)
                return r;
        if (!count || !module)
                return CUDA_ERROR_INVALID_VALUE;
        for (CUfunction function = module->functions; function; function = function->next)
                n++;
        *count = n;
        return CUDA_SUCCESS;
}

/* Variables of a module have no memory here. */
CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name)
{
        (void)at;
        (void)bytes;
        (void)module;
        (void)name;
        return CUDA_ERROR_NOT_FOUND;
}

/* ---- libraries: modules that need no context ------------------------------------------------- */

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *loaded, const void *code, CUjit_option *jit_options, void **jit_values,
                                   unsigned int n_jit_options, CUlibraryOption *options, void **values,
                                   unsigned int n_options)
{
        LOCKED_LIBRARY;
        CUlibrary made;
        CUresult r = library_check();

        (void)jit_options;
        (void)jit_values;
        (void)n_jit_options;
        (void)options;
        (void)values;
        (void)n_options;
        if (r != CUDA_SUCCESS)
                return r;
        if (!loaded)
                return CUDA_ERROR_INVALID_VALUE;
        made = calloc(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = module_new(code, &made->module);
        if (r != CUDA_SUCCESS) {
                free(made);
                return r;
        }
        *loaded = made;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary loaded)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!loaded)
                return CUDA_ERROR_INVALID_HANDLE;
        (void)module_free(loaded->module);
        free(loaded);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary loaded, const char *name)
{
        LOCKED_LIBRARY;
        CUfunction function;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!loaded)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!kernel || !name)
                return CUDA_ERROR_INVALID_VALUE;
        function = function_named(loaded->module, name);
        *kernel = (CUkernel)(void *)function; /* a kernel is its function: there is one context's code */
        return function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *module, CUlibrary loaded)
{
        if (!loaded)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!module)
                return CUDA_ERROR_INVALID_VALUE;
        *module = loaded->module;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
        if (!kernel)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!function)
                return CUDA_ERROR_INVALID_VALUE;
        *function = (CUfunction)(void *)kernel;
        return CUDA_SUCCESS;
}

/* ---- functions ------------------------------------------------------------------------------- */

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
        if (!function)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!value)
                return CUDA_ERROR_INVALID_VALUE;
        switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
                *value = 1024;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
                *value = 32;
                return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
                *value = 90;
                return CUDA_SUCCESS;
        default:
                *value = 0;
                return CUDA_SUCCESS;
        }
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
        (void)attribute;
        (void)value;
        return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction function)
{
        if (!function)
                return CUDA_ERROR_INVALID_HANDLE;
        if (!name)
                return CUDA_ERROR_INVALID_VALUE;
        *name = function->name;
        return CUDA_SUCCESS;
}
