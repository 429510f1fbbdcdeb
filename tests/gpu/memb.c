/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memb - what the memory calls and a launch of the CUDA driver API cost. One JSON object per run.
 *
 *      memb [LABEL [PART]]             a PART-th as many calls
 *
 * Each call is timed alone. Medians are what to compare: a call now and then is disturbed by the
 * machine, and the driver now and then does extra work (a 4 KiB allocation takes a new 2 MiB block
 * only once in 512). p99 and mean show how often that is. Allocations are made in batches that are
 * held until the batch is full, at most a quarter of what cuMemGetInfo calls free, so that a run
 * fits a quota. Times are in microseconds unless the key says ms.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
        N_MAX = 20000,
        N_LAUNCH = 20000,
        N_SYNC = 5000,
        LAUNCH_BATCH = 500, /* fewer than the queue holds, so that a launch never waits for room */
};

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry sublet_nop()\n{\n  ret;\n}\n";

#define MUST(call)                                                                                                     \
        do {                                                                                                           \
                CUresult must_ = (call);                                                                               \
                if (must_ != CUDA_SUCCESS)                                                                             \
                        fail(#call, must_);                                                                            \
        } while (0)

static _Noreturn void fail(const char *what, CUresult r)
{
        const char *name = NULL;

        (void)cuGetErrorName(r, &name);
        fprintf(stderr, "memb: %s: %s\n", what, name ? name : "?");
        exit(3);
}

static double now_usec(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static void report(const char *key, double *samples, size_t n)
{
        double sum = 0;

        qsort(samples, n, sizeof(*samples), by_value);
        for (size_t i = 0; i < n; i++)
                sum += samples[i];
        printf(",\"%s\":{\"n\":%zu,\"min\":%.2f,\"p50\":%.2f,\"p90\":%.2f,\"p99\":%.2f,\"max\":%.2f,\"mean\":%.2f}",
               key, n, samples[0], samples[n / 2], samples[n * 9 / 10], samples[n * 99 / 100], samples[n - 1],
               sum / (double)n);
}

static double took_alloc[N_MAX], took_free[N_MAX];

static void measure_size(const char *name, size_t bytes, size_t n)
{
        CUdeviceptr held[200];
        char key[64];
        size_t free_bytes, total, batch, done = 0;

        MUST(cuMemGetInfo(&free_bytes, &total));
        batch = free_bytes / 4 / bytes;
        if (batch > sizeof(held) / sizeof(*held))
                batch = sizeof(held) / sizeof(*held);
        if (!batch)
                return; /* does not fit; the key is absent */

        while (done < n) {
                size_t m = n - done < batch ? n - done : batch;

                for (size_t i = 0; i < m; i++) {
                        double began = now_usec();

                        MUST(cuMemAlloc(&held[i], bytes));
                        took_alloc[done + i] = now_usec() - began;
                }
                for (size_t i = 0; i < m; i++) {
                        double began = now_usec();

                        MUST(cuMemFree(held[i]));
                        took_free[done + i] = now_usec() - began;
                }
                done += m;
        }
        (void)snprintf(key, sizeof(key), "alloc_%s", name);
        report(key, took_alloc, n);
        (void)snprintf(key, sizeof(key), "free_%s", name);
        report(key, took_free, n);
}

int main(int argc, char **argv)
{
        size_t part = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, n_launch, n_sync;
        double began = now_usec(), inited, retained, first;
        size_t free_bytes, total;
        CUdevice device;
        CUcontext context;
        CUmodule module;
        CUfunction kernel;
        CUdeviceptr at;

        if (part < 1 || part > 100)
                part = 1;
        n_launch = N_LAUNCH / part;
        n_sync = N_SYNC / part;
        MUST(cuInit(0));
        inited = now_usec();
        MUST(cuDeviceGet(&device, 0));
        MUST(cuDevicePrimaryCtxRetain(&context, device));
        MUST(cuCtxSetCurrent(context));
        retained = now_usec();
        MUST(cuMemAlloc(&at, 1 << 20));
        first = now_usec();
        MUST(cuMemGetInfo(&free_bytes, &total));
        printf("{\"label\":\"%s\",\"cuinit_ms\":%.2f,\"context_ms\":%.2f,\"init_ms\":%.2f,\"first_alloc\":%.2f,"
               "\"free_mib\":%zu,\"total_mib\":%zu",
               argc > 1 ? argv[1] : "", (inited - began) / 1e3, (retained - inited) / 1e3, (retained - began) / 1e3,
               first - retained, free_bytes >> 20, total >> 20);

        measure_size("4k", 4 << 10, 4000 / part);
        measure_size("1m", 1 << 20, 2000 / part);
        measure_size("4m", 4 << 20, 2000 / part);
        measure_size("256m", 256 << 20, 200 / part);

        MUST(cuModuleLoadData(&module, ptx));
        MUST(cuModuleGetFunction(&kernel, module, "sublet_nop"));
        for (int i = 0; i < 100; i++)
                MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        MUST(cuCtxSynchronize());
        for (size_t i = 0; i < n_launch; i++) {
                began = now_usec();
                MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
                took_alloc[i] = now_usec() - began;
                if (i % LAUNCH_BATCH == LAUNCH_BATCH - 1)
                        MUST(cuCtxSynchronize());
        }
        report("launch", took_alloc, n_launch);
        for (size_t i = 0; i < n_sync; i++) {
                began = now_usec();
                MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
                MUST(cuStreamSynchronize(NULL));
                took_alloc[i] = now_usec() - began;
        }
        report("launch_sync", took_alloc, n_sync);
        began = now_usec();
        for (size_t i = 0; i < 1000; i++)
                MUST(cuMemGetInfo(&free_bytes, &total));
        printf(",\"meminfo_mean\":%.2f}\n", (now_usec() - began) / 1000);
        MUST(cuMemFree(at));
        MUST(cuDevicePrimaryCtxRelease(device));
        return 0;
}
