/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps - a job on several devices whose steps wait for each other: a kernel on each, and the next step begins when all
 * of them have ended.
 *
 *      steps [OPTION...]
 *
 *      -d COUNT   devices, from the first on that the program sees (2)
 *      -k US      length of a kernel (2000)
 *      -r ROUNDS  rounds of arithmetic per microsecond (51.9: an H200 at 1.665 GHz)
 *      -t SECONDS for so long after the start (3)
 *      -b DIR     tell DIR/NAME.ready, then wait for DIR/go; while DIR/NAME.pause is there do nothing, and end when
 *                 DIR/stop is
 *      -o FILE    the log: when each step was done, seconds of CLOCK_MONOTONIC, a line each
 *      -n NAME    of this job (steps)
 *
 * Prints name=NAME steps=COUNT seconds=SECONDS.
 */
#define _GNU_SOURCE
#include "burn.h"

#include <cuda.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
        DEVICES_MAX = 32,
        THREADS = 1024,
};

struct rank {
        CUcontext context;
        CUfunction burn;
        CUdeviceptr sink, log;
        int blocks;
};

struct job {
        unsigned int n, kernel_us;
        double rounds_per_us, seconds;
        const char *barrier, *name, *log;
        struct rank ranks[DEVICES_MAX];
};

#define CHECK(call) check((call), #call)

static void check(CUresult r, const char *what)
{
        const char *text = "?";

        if (r == CUDA_SUCCESS)
                return;
        (void)cuGetErrorString(r, &text);
        fprintf(stderr, "steps: %s: %s\n", what, text);
        exit(3);
}

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void launch(const struct job *job, struct rank *rank, unsigned int us)
{
        unsigned int rounds = (unsigned int)(us * job->rounds_per_us), pieces = 1;
        void *arguments[] = { &rank->sink, &rounds, &rank->log, &pieces };

        CHECK(cuCtxSetCurrent(rank->context));
        CHECK(cuLaunchKernel(rank->burn, (unsigned int)rank->blocks, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
}

static void wait_for_all(struct job *job)
{
        for (unsigned int i = 0; i < job->n; i++) {
                CHECK(cuCtxSetCurrent(job->ranks[i].context));
                CHECK(cuCtxSynchronize());
        }
}

static void set_up(struct job *job, unsigned int i)
{
        struct rank *rank = &job->ranks[i];
        CUdevice device;
        CUmodule module;

        CHECK(cuDeviceGet(&device, (int)i));
        CHECK(cuDeviceGetAttribute(&rank->blocks, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
        CHECK(cuDevicePrimaryCtxRetain(&rank->context, device));
        CHECK(cuCtxSetCurrent(rank->context));
        CHECK(cuModuleLoadData(&module, burn_ptx));
        CHECK(cuModuleGetFunction(&rank->burn, module, "burn"));
        CHECK(cuMemAlloc(&rank->sink, 4096));
        CHECK(cuMemAlloc(&rank->log, BURN_LOG_MAX * sizeof(unsigned long long)));
        launch(job, rank, 1);
}

/* Whether DIR/NAMEending is there. */
static int is_there(const struct job *job, const char *name, const char *ending)
{
        char path[4096];

        (void)snprintf(path, sizeof path, "%s/%s%s", job->barrier, name, ending);
        return access(path, F_OK) == 0;
}

static void wait_for_go(const struct job *job)
{
        char path[4096];
        FILE *file;

        if (!job->barrier)
                return;
        (void)snprintf(path, sizeof path, "%s/%s.ready", job->barrier, job->name);
        file = fopen(path, "w");
        if (file)
                (void)fclose(file);
        while (!is_there(job, "go", ""))
                (void)usleep(500);
}

/* False: it is to end. */
static int goes_on(const struct job *job, double end)
{
        while (job->barrier && is_there(job, job->name, ".pause") && !is_there(job, "stop", ""))
                (void)usleep(1000);
        return now() < end && !(job->barrier && is_there(job, "stop", ""));
}

static void parse(struct job *job, int argc, char **argv)
{
        int c;

        while ((c = getopt(argc, argv, "d:k:r:t:b:n:o:")) != -1)
                switch (c) {
                case 'd':
                        job->n = (unsigned int)atoi(optarg);
                        break;
                case 'k':
                        job->kernel_us = (unsigned int)atoi(optarg);
                        break;
                case 'r':
                        job->rounds_per_us = atof(optarg);
                        break;
                case 't':
                        job->seconds = atof(optarg);
                        break;
                case 'b':
                        job->barrier = optarg;
                        break;
                case 'o':
                        job->log = optarg;
                        break;
                case 'n':
                        job->name = optarg;
                        break;
                default:
                        exit(2);
                }
        if (!job->n || job->n > DEVICES_MAX)
                exit(2);
}

int main(int argc, char **argv)
{
        static struct job job = { .n = 2, .kernel_us = 2000, .rounds_per_us = 51.9, .seconds = 3, .name = "steps" };
        unsigned long n_steps = 0;
        FILE *log = NULL;
        double begin;

        parse(&job, argc, argv);
        CHECK(cuInit(0));
        for (unsigned int i = 0; i < job.n; i++)
                set_up(&job, i);
        wait_for_all(&job);
        wait_for_go(&job);
        if (job.log)
                log = fopen(job.log, "w");
        if (log)
                (void)setvbuf(log, NULL, _IOLBF, 0);
        for (begin = now(); goes_on(&job, begin + job.seconds); n_steps++) {
                for (unsigned int i = 0; i < job.n; i++)
                        launch(&job, &job.ranks[i], job.kernel_us);
                wait_for_all(&job);
                if (log)
                        fprintf(log, "%.6f\n", now());
        }
        if (log)
                (void)fclose(log);
        printf("name=%s steps=%lu seconds=%.3f\n", job.name, n_steps, now() - begin);
        return 0;
}
