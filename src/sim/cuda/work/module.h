/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: PTX text, of which the simulator understands the names of the entries and their
 * parameters. What an entry does and costs: kernels.def, kernel.c.
 */
#pragma once

#include "sim/cuda/context/stream.h"

enum {
        PARAMS_MAX = 32,
};

struct CUfunc_st {
        CUfunction next; /* in the module */
        CUmodule module;
        char *name;
        size_t n_params, size;
        uint32_t at[PARAMS_MAX], length[PARAMS_MAX];
        uint64_t duration; /* ns, by a directive in the text; 0: none */
        const struct kernel *kernel;
};

struct CUmod_st {
        CUfunction functions;
};

/* What the simulator can do in place of an entry. */
struct kernel {
        const char *name;
        uint64_t (*cost)(const struct op *op, uint64_t multiprocessors); /* ns on a device of its own */
        CUresult (*work)(const struct op *op);                           /* NULL: no visible effect */
};

const struct kernel *kernel_named(const char *name);                 /* never NULL: unknown ones do nothing */
struct meets kernel_meets(const struct op *op);                      /* n 0: it waits for no other device */
uint64_t kernel_cost(const struct op *op, uint32_t multiprocessors); /* 0: all of the device's */

/* Reads all entries of PTX text. CUDA_ERROR_INVALID_PTX; nothing is left then. */
CUresult ptx_read(const char *text, CUmodule module);
