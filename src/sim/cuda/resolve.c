/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: the newest entry point of a name in the requested version of CUDA. Per-thread
 * default streams have no entry points of their own here: the plain ones are returned, which is the
 * same for a program that names its streams.
 */
#include "sim/cuda/state.h"

#include <string.h>

struct call {
        const char *name, *symbol;
        int since;
        CUresult (*address)(void); /* of whatever type */
};

/* The table holds functions of many types, cast to one. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-function-type"
/* The names are tokens that the header renames: they must not be expanded before # sees them. */
#define CALL(name, symbol, since) { #name, #symbol, since, (CUresult(*)(void))symbol },
static const struct call calls[] = {
#include "sim/cuda/calls.def"
};
#undef CALL
#pragma GCC diagnostic pop

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
        const struct call *found = NULL;
        bool is_known = false;

        (void)flags;
        if (!symbol || !function)
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
                if (strcmp(calls[i].name, symbol) != 0)
                        continue;
                is_known = true;
                if (calls[i].since <= version && (!found || found->since < calls[i].since))
                        found = &calls[i];
        }
        *function = found ? *(void *const *)(const void *)&found->address : NULL;
        if (status)
                *status = found    ? CU_GET_PROC_ADDRESS_SUCCESS :
                          is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
                                     CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return found || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
