/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for a limiter that is preloaded into a program (bench/limiter). Much simpler than a real one, and as easy to
 * avoid.
 *
 *      LIMITER_PERCENT         the program's kernels have at most so much of the time, because after each launch it
 *                              waits for the device and then sleeps
 *      LIMITER_MIB             it is refused an allocation that is larger
 *      LIMITER_SEEN            a file to which it adds what it was told
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SHOWN __attribute__((visibility("default")))

typedef CUresult launch_function(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                 unsigned int, unsigned int, CUstream, void **, void **);
typedef CUresult wait_function(CUstream);
typedef CUresult allocate_function(CUdeviceptr *, size_t);

static long setting(const char *name)
{
        const char *text = getenv(name);

        return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void)
{
        const char *path = getenv("LIMITER_SEEN");
        FILE *file = path ? fopen(path, "a") : NULL;

        if (!file)
                return;
        (void)fprintf(file, "%ld %ld\n", setting("LIMITER_PERCENT"), setting("LIMITER_MIB"));
        (void)fclose(file);
}

static long nsec_since(const struct timespec *then)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (now.tv_sec - then->tv_sec) * 1000000000L + now.tv_nsec - then->tv_nsec;
}

SHOWN CUresult cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int block_x,
                              unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream,
                              void **arguments, void **extra)
{
        launch_function *next;
        wait_function *wait;
        long percent = setting("LIMITER_PERCENT"), pause;
        struct timespec began, rest;
        CUresult r;

        *(void **)&next = dlsym(RTLD_NEXT, "cuLaunchKernel");
        *(void **)&wait = dlsym(RTLD_NEXT, "cuStreamSynchronize");
        (void)clock_gettime(CLOCK_MONOTONIC, &began);
        r = next(function, x, y, z, block_x, block_y, block_z, shared, stream, arguments, extra);
        if (r != CUDA_SUCCESS || percent <= 0 || percent >= 100)
                return r;
        r = wait(stream);
        pause = nsec_since(&began) / percent * (100 - percent);
        rest = (struct timespec){ pause / 1000000000L, pause % 1000000000L };
        (void)nanosleep(&rest, NULL);
        return r;
}

#undef cuMemAlloc
SHOWN CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
        allocate_function *next;
        long mib = setting("LIMITER_MIB");

        *(void **)&next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
        return mib > 0 && bytes >> 20 > (size_t)mib ? CUDA_ERROR_OUT_OF_MEMORY : next(at, bytes);
}
