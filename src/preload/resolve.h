/*
 * How a program finds the driver's calls, and finds ours instead.
 *
 * A program that is linked with libcuda gets ours by the loader's order. All others (the CUDA runtime, so PyTorch,
 * cuBLAS and the rest) ask dlsym for cuGetProcAddress and that for everything else. We answer both by one rule: ask the
 * driver, then recognise the address it answered. Version and variant are the driver's to choose; no name is guessed.
 */
#pragma once

#include "preload/cuda_types.h"

#include <stdbool.h>

/* The driver's entry points as the driver has them; NULL: it has none. */
struct driver {
#define CALL(symbol, arguments) CUresult(*symbol) arguments;
#define NEED(symbol, arguments) CUresult(*symbol) arguments;
#include "preload/calls.def"
#undef CALL
#undef NEED
};

/* Every hook has the type of its row; one that disagrees does not compile. */
#define CALL(symbol, arguments) CUresult symbol arguments;
#define NEED(symbol, arguments)
#include "preload/calls.def"
#undef CALL
#undef NEED

/* Filled at the first call, when libcuda is there. Threads: any. */
const struct driver *driver_get(void);
