/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program finds the driver's calls, and gets the interposed ones instead.
 *
 * In a program linked with libcuda the loader's order decides. All others (the CUDA runtime, hence PyTorch, cuBLAS and
 * the rest) ask dlsym for cuGetProcAddress, and that for everything else. Both are answered by one rule: ask the
 * driver, then look its answer up by address. The driver chooses version and variant; no name is guessed.
 */
#pragma once

#include "preload/cuda_types.h"

#include <stdbool.h>

/* The driver's entry points; NULL: this driver lacks it. */
struct driver {
#define CALL(symbol, arguments) CUresult(*symbol) arguments;
#define NEED(symbol, arguments) CUresult(*symbol) arguments;
#include "preload/calls.def"
#undef CALL
#undef NEED
};

/* Prototypes of the interposed functions: one that disagrees with its row does not compile. */
#define CALL(symbol, arguments) CUresult symbol arguments;
#define NEED(symbol, arguments)
#include "preload/calls.def"
#undef CALL
#undef NEED

/* Filled at the first call, when libcuda is loaded. Threads: any. */
const struct driver *driver_get(void);
