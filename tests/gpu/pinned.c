/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pinned - what the link carries: copies of 1 GiB between pinned host memory and the device, one after the other. For
 * swap.sh, whose moves are compared with it. Needs no header and no library of CUDA's to build.
 *
 *      gcc -O2 tests/gpu/pinned.c -o pinned -ldl
 *      pinned [MIB [TIMES]]            1024 MiB, 16 times each way
 *
 * Prints "out=G back=G", in GB/s: from the device, and to it. Exits with 1 if a call fails.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned long long address;

static struct {
        int (*init)(unsigned int);
        int (*retain)(void **, int);
        int (*enter)(void *);
        int (*alloc)(address *, size_t);
        int (*alloc_host)(void **, size_t);
        int (*out)(void *, address, size_t, void *);
        int (*back)(address, const void *, size_t, void *);
        int (*synchronize)(void);
} cuda;

static void must(int result, const char *what)
{
        if (result == 0)
                return;
        printf("%s: %d\n", what, result);
        exit(1);
}

static void *symbol_find(void *library, const char *name)
{
        void *at = library ? dlsym(library, name) : NULL;

        must(at == NULL, name);
        return at;
}

static void cuda_load(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW);

        *(void **)&cuda.init = symbol_find(library, "cuInit");
        *(void **)&cuda.retain = symbol_find(library, "cuDevicePrimaryCtxRetain");
        *(void **)&cuda.enter = symbol_find(library, "cuCtxSetCurrent");
        *(void **)&cuda.alloc = symbol_find(library, "cuMemAlloc_v2");
        *(void **)&cuda.alloc_host = symbol_find(library, "cuMemAllocHost_v2");
        *(void **)&cuda.out = symbol_find(library, "cuMemcpyDtoHAsync_v2");
        *(void **)&cuda.back = symbol_find(library, "cuMemcpyHtoDAsync_v2");
        *(void **)&cuda.synchronize = symbol_find(library, "cuCtxSynchronize");
}

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double rate(int is_out, address device, void *host, size_t size, int times)
{
        double began = 0;

        for (int i = -1; i < times; i++) { /* the first is not counted */
                must(is_out ? cuda.out(host, device, size, NULL) : cuda.back(device, host, size, NULL), "copying");
                if (i >= 0 && i < times - 1)
                        continue;
                must(cuda.synchronize(), "cuCtxSynchronize");
                began = i < 0 ? now() : began;
        }
        return (double)size * times / (now() - began) / 1e9;
}

int main(int argc, char **argv)
{
        size_t size = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1024) << 20;
        int times = argc > 2 ? atoi(argv[2]) : 16;
        void *context, *host;
        address device;
        double out;

        must(!size || times < 1, "pinned [MIB [TIMES]]");
        cuda_load();
        must(cuda.init(0), "cuInit");
        must(cuda.retain(&context, 0), "cuDevicePrimaryCtxRetain");
        must(cuda.enter(context), "cuCtxSetCurrent");
        must(cuda.alloc(&device, size), "cuMemAlloc");
        must(cuda.alloc_host(&host, size), "cuMemAllocHost");
        out = rate(1, device, host, size, times);
        printf("out=%.1f back=%.1f\n", out, rate(0, device, host, size, times));
        return 0;
}
