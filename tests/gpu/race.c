/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race - many processes of one tenant take and return memory as fast as they can.
 *
 *      race [--processes N] [--iterations N] [--max MiB] [--seconds S] [--total MiB]
 *
 * Each process holds at most HELD allocations of 2 MiB to --max (default 64 MiB), and takes or frees
 * one of them at random. Success and CUDA_ERROR_OUT_OF_MEMORY are fine; anything else is an error.
 * Every 64th step asks cuMemGetInfo: the total must be --total (default: what it was first) and
 * free must not exceed it. Run it under a quota smaller than processes x HELD x max. Each
 * context costs its own memory (some 510 MiB on an H200); a process that finds no room for one is
 * counted, not an error.
 *
 *      processes=32 ran=32 no_context=0 ok=801234 oom=12345 freed=801234 peak_mib=7680
 *              wrong_total=0 errors=0 first_error=CUDA_SUCCESS        (one line)
 *
 * peak_mib is the most that all of them held at once, by their own books: a lower bound of what
 * the quota let through. Exit status: 0; 3 when there was an error, a wrong total or a lost child.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ull << 20)

enum {
        HELD = 16,
        PROCESSES_MAX = 1024,
        START_SECONDS = 120, /* contexts of many processes are made one after the other */
};

/* Shared by all processes; each of them only adds. */
struct score {
        atomic_ullong ready, ran, no_context, ok, oom, freed, wrong_total, errors;
        atomic_ullong held, peak; /* bytes */
        atomic_int first_error;
        atomic_bool go;
};

static struct score *score;

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void note_error(CUresult r)
{
        int none = CUDA_SUCCESS;

        atomic_fetch_add(&score->errors, 1);
        atomic_compare_exchange_strong(&score->first_error, &none, (int)r);
}

static void note_held(unsigned long long bytes)
{
        unsigned long long held = atomic_fetch_add(&score->held, bytes) + bytes;
        unsigned long long peak = atomic_load(&score->peak);

        while (held > peak && !atomic_compare_exchange_weak(&score->peak, &peak, held))
                ;
}

static uint64_t next_random(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static void check_info(size_t *total)
{
        size_t free_bytes, seen;
        CUresult r = cuMemGetInfo(&free_bytes, &seen);

        if (r != CUDA_SUCCESS) {
                note_error(r);
                return;
        }
        if (!*total)
                *total = seen;
        if (seen != *total || free_bytes > seen)
                atomic_fetch_add(&score->wrong_total, 1);
}

static CUresult context_make(void)
{
        CUdevice device;
        CUcontext context;
        CUresult r = cuInit(0);

        if (r == CUDA_SUCCESS)
                r = cuDeviceGet(&device, 0);
        if (r == CUDA_SUCCESS)
                r = cuDevicePrimaryCtxRetain(&context, device);
        if (r == CUDA_SUCCESS)
                r = cuCtxSetCurrent(context);
        return r;
}

static void runner(unsigned int index, unsigned long n, uint64_t max_mib, double seconds, size_t total)
{
        struct {
                CUdeviceptr at;
                size_t bytes;
        } held[HELD] = { 0 };
        uint64_t state = 0x9e3779b97f4a7c15ull * (index + 1);
        double until;
        CUresult r = context_make();

        atomic_fetch_add(&score->ready, 1);
        if (r != CUDA_SUCCESS) {
                if (r == CUDA_ERROR_OUT_OF_MEMORY)
                        atomic_fetch_add(&score->no_context, 1);
                else
                        note_error(r);
                return;
        }
        while (!atomic_load(&score->go))
                usleep(1000);
        until = now() + seconds;

        for (unsigned long i = 0; i < n && now() < until; i++) {
                uint64_t dice = next_random(&state);
                size_t slot = dice % HELD;

                if (held[slot].at) {
                        atomic_fetch_sub(&score->held, held[slot].bytes);
                        r = cuMemFree(held[slot].at);
                        held[slot].at = 0;
                        if (r == CUDA_SUCCESS)
                                atomic_fetch_add(&score->freed, 1);
                        else
                                note_error(r);
                } else {
                        size_t bytes = 2 * MIB;

                        if (max_mib > 2)
                                bytes += (dice >> 8) % ((max_mib - 2) * MIB + 1);
                        r = cuMemAlloc(&held[slot].at, bytes);
                        held[slot].bytes = bytes;
                        if (r == CUDA_SUCCESS) {
                                atomic_fetch_add(&score->ok, 1);
                                note_held(bytes);
                        } else {
                                held[slot].at = 0;
                                if (r == CUDA_ERROR_OUT_OF_MEMORY)
                                        atomic_fetch_add(&score->oom, 1);
                                else
                                        note_error(r);
                        }
                }
                if (i % 64 == 0)
                        check_info(&total);
        }
        for (size_t slot = 0; slot < HELD; slot++) {
                if (!held[slot].at)
                        continue;
                atomic_fetch_sub(&score->held, held[slot].bytes);
                r = cuMemFree(held[slot].at);
                if (r == CUDA_SUCCESS)
                        atomic_fetch_add(&score->freed, 1);
                else
                        note_error(r);
        }
        atomic_fetch_add(&score->ran, 1);
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                { "processes", required_argument, NULL, 'p' }, { "iterations", required_argument, NULL, 'n' },
                { "max", required_argument, NULL, 'm' },       { "seconds", required_argument, NULL, 's' },
                { "total", required_argument, NULL, 't' },     { 0 },
        };
        unsigned int processes = 32, lost = 0;
        unsigned long n = 100000;
        uint64_t max_mib = 64, total_mib = 0;
        double seconds = 60, began;
        const char *name = NULL;
        int option, status;
        pid_t pids[PROCESSES_MAX];

        while ((option = getopt_long(argc, argv, "p:n:m:s:t:", options, NULL)) != -1) {
                switch (option) {
                case 'p':
                        processes = (unsigned int)strtoul(optarg, NULL, 0);
                        break;
                case 'n':
                        n = strtoul(optarg, NULL, 0);
                        break;
                case 'm':
                        max_mib = strtoull(optarg, NULL, 0);
                        break;
                case 's':
                        seconds = strtod(optarg, NULL);
                        break;
                case 't':
                        total_mib = strtoull(optarg, NULL, 0);
                        break;
                default:
                        fprintf(stderr, "usage: race [--processes N] [--iterations N] [--max MiB] [--seconds S] "
                                        "[--total MiB]\n");
                        return 2;
                }
        }
        if (processes < 1 || processes > PROCESSES_MAX)
                processes = 32;
        score = mmap(NULL, sizeof(*score), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (score == MAP_FAILED)
                return 3;

        for (unsigned int i = 0; i < processes; i++) {
                pids[i] = fork(); /* before cuInit */
                if (pids[i] == 0) {
                        runner(i, n, max_mib, seconds, total_mib * MIB);
                        exit(0);
                }
        }
        began = now();
        while (atomic_load(&score->ready) < processes && now() < began + START_SECONDS)
                usleep(1000);
        atomic_store(&score->go, 1);
        began = now();
        for (unsigned int i = 0; i < processes; i++) {
                pid_t r;

                while ((r = waitpid(pids[i], &status, WNOHANG)) == 0 && now() < began + seconds + 60)
                        usleep(10000);
                if (r == 0) { /* hangs: that is a finding, too */
                        (void)kill(pids[i], SIGKILL);
                        (void)waitpid(pids[i], &status, 0);
                }
                if (r != pids[i] || status != 0)
                        lost++;
        }
        (void)cuGetErrorName((CUresult)atomic_load(&score->first_error), &name);
        printf("processes=%u ran=%llu no_context=%llu ok=%llu oom=%llu freed=%llu peak_mib=%llu "
               "wrong_total=%llu errors=%llu first_error=%s lost=%u seconds=%.1f\n",
               processes, atomic_load(&score->ran), atomic_load(&score->no_context), atomic_load(&score->ok),
               atomic_load(&score->oom), atomic_load(&score->freed), atomic_load(&score->peak) / MIB,
               atomic_load(&score->wrong_total), atomic_load(&score->errors), name ? name : "?", lost, now() - began);
        return lost || atomic_load(&score->errors) || atomic_load(&score->wrong_total) ? 3 : 0;
}
