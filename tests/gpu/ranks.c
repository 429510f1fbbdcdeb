/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks - a data-parallel job on the simulator: each step is arithmetic on every device and then an all-reduce, whose
 * kernels wait on their devices for each other. A job is one process with several devices, or several processes with
 * one each, which give the same -j.
 *
 *      ranks [-j NUMBER] [-d FIRST] [-n COUNT] [-w RANKS] [-k US] [-m US] [-s STEPS] [-o FILE]
 *
 *      -j NUMBER  of the job: what its all-reduce is named (1)
 *      -d FIRST   the first device that is used (0); -n COUNT of them (2); -w RANKS of the whole job (COUNT)
 *      -k US      arithmetic of a step (2000); -m US what the all-reduce takes once all are there (500)
 *      -s STEPS   how many (100)
 *      -o FILE    the log: when each step was done, seconds of CLOCK_MONOTONIC, a line each
 *
 * Prints ranks=COUNT steps=STEPS seconds=S. Only the simulator knows its kernels (src/sim/cuda/work/kernels.def).
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
        DEVICES_MAX = 32,
};

static const char ptx[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry burn(.param .u64 p, .param .u32 n)\n{\n ret;\n}\n"
        ".visible .entry all_reduce(.param .u64 name, .param .u32 ranks, .param .u64 ns)\n{\n ret;\n}\n";

struct rank {
        CUcontext context;
        CUfunction burn, reduce;
};

static void check(CUresult r, const char *what)
{
        const char *text = "?";

        if (r == CUDA_SUCCESS)
                return;
        (void)cuGetErrorString(r, &text);
        fprintf(stderr, "ranks: %s: %s\n", what, text);
        exit(3);
}

#define CHECK(call) check((call), #call)

static void rank_open(struct rank *rank, int number)
{
        CUdevice device;
        CUmodule module;

        CHECK(cuDeviceGet(&device, number));
        CHECK(cuDevicePrimaryCtxRetain(&rank->context, device));
        CHECK(cuCtxSetCurrent(rank->context));
        CHECK(cuModuleLoadData(&module, ptx));
        CHECK(cuModuleGetFunction(&rank->burn, module, "burn"));
        CHECK(cuModuleGetFunction(&rank->reduce, module, "all_reduce"));
}

static void step(struct rank *ranks, int n, uint64_t job, uint32_t world, uint32_t rounds, uint64_t reduce_ns)
{
        uint64_t nothing = 0;
        void *work[] = { &nothing, &rounds }, *meeting[] = { &job, &world, &reduce_ns };

        for (int i = 0; i < n; i++) {
                CHECK(cuCtxSetCurrent(ranks[i].context));
                CHECK(cuLaunchKernel(ranks[i].burn, 1056, 1, 1, 256, 1, 1, 0, NULL, work, NULL));
                CHECK(cuLaunchKernel(ranks[i].reduce, 1, 1, 1, 1, 1, 1, 0, NULL, meeting, NULL));
        }
        for (int i = 0; i < n; i++) {
                CHECK(cuCtxSetCurrent(ranks[i].context));
                CHECK(cuCtxSynchronize());
        }
}

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
        struct rank ranks[DEVICES_MAX] = { 0 };
        unsigned long job = 1, first = 0, n = 2, world = 0, work_us = 2000, reduce_us = 500, steps = 100;
        FILE *log = NULL;
        double begin;

        for (int option; (option = getopt(argc, argv, "j:d:n:w:k:m:s:o:")) != -1;) {
                unsigned long value = optarg ? strtoul(optarg, NULL, 0) : 0;
                unsigned long *to = option == 'j' ? &job :
                                    option == 'd' ? &first :
                                    option == 'n' ? &n :
                                    option == 'w' ? &world :
                                    option == 'k' ? &work_us :
                                    option == 'm' ? &reduce_us :
                                    option == 's' ? &steps :
                                                    NULL;

                if (option == 'o' && (log = fopen(optarg, "w")) != NULL) {
                        (void)setvbuf(log, NULL, _IOLBF, 0);
                        continue;
                }
                if (!to)
                        return 2;
                *to = value;
        }
        if (!n || n > DEVICES_MAX)
                return 2;
        CHECK(cuInit(0));
        for (unsigned long i = 0; i < n; i++)
                rank_open(&ranks[i], (int)(first + i));
        begin = now();
        for (unsigned long i = 0; i < steps; i++) { /* 20000 rounds of burn are 0.77 ms: kernel.c */
                step(ranks, (int)n, job, (uint32_t)(world ? world : n), (uint32_t)(work_us * 20000 / 770),
                     reduce_us * 1000);
                if (log)
                        fprintf(log, "%.6f\n", now());
        }
        if (log)
                (void)fclose(log);
        printf("ranks=%lu steps=%lu seconds=%.3f\n", n, steps, now() - begin);
        return 0;
}
