/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spread - one tenant in several threads, or a second program by vfork.
 *
 *      spread threads N STEP-MiB       N threads of one context take memory until all are refused
 *      spread vfork COMMAND...         the command as a child that shares this memory until it is
 *                                      there; ours is the command's exit status
 *
 *      threads=8 got_mib=7424 n=116 refused=8 errors=0 freed=116
 *
 * Exit status of `threads`: 0; 3 when anything but a success and CUDA_ERROR_OUT_OF_MEMORY was seen.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        THREADS_MAX = 64,
        HELD_MAX = 16384,
};

static CUcontext context;
static size_t step;
static CUdeviceptr held[HELD_MAX];
static atomic_size_t n_held;
static atomic_uint n_refused, n_errors;
static pthread_barrier_t together;

static void *taker(void *unused)
{
        CUdeviceptr at;
        CUresult r = cuCtxSetCurrent(context);

        (void)unused;
        (void)pthread_barrier_wait(&together);
        while (r == CUDA_SUCCESS && atomic_load(&n_held) < HELD_MAX - THREADS_MAX) {
                r = cuMemAlloc(&at, step);
                if (r == CUDA_SUCCESS)
                        held[atomic_fetch_add(&n_held, 1)] = at;
        }
        atomic_fetch_add(r == CUDA_ERROR_OUT_OF_MEMORY ? &n_refused : &n_errors, 1);
        return NULL;
}

static int threads(unsigned int n)
{
        pthread_t thread[THREADS_MAX];
        CUdevice device;
        size_t n_freed = 0;

        if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
            cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) {
                fprintf(stderr, "spread: no context\n");
                return 3;
        }
        (void)pthread_barrier_init(&together, NULL, n);
        for (unsigned int i = 0; i < n; i++)
                if (pthread_create(&thread[i], NULL, taker, NULL) != 0)
                        return 3;
        for (unsigned int i = 0; i < n; i++)
                (void)pthread_join(thread[i], NULL);
        for (size_t i = 0; i < n_held; i++)
                n_freed += cuMemFree(held[i]) == CUDA_SUCCESS;
        printf("threads=%u got_mib=%zu n=%zu refused=%u errors=%u freed=%zu\n", n, (n_held * step) >> 20,
               (size_t)n_held, n_refused, n_errors, n_freed);
        return n_errors || n_freed != n_held ? 3 : 0;
}

static int by_vfork(char **command)
{
        int status;
        pid_t child = vfork();

        if (child == 0) {
                (void)execvp(command[0], command);
                _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
                return 3;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
        if (argc == 4 && strcmp(argv[1], "threads") == 0) {
                unsigned long n = strtoul(argv[2], NULL, 0);

                step = strtoul(argv[3], NULL, 0) << 20;
                if (n >= 1 && n <= THREADS_MAX && step)
                        return threads((unsigned int)n);
        }
        if (argc >= 3 && strcmp(argv[1], "vfork") == 0)
                return by_vfork(argv + 2);
        fprintf(stderr, "usage: spread threads N STEP-MiB | vfork COMMAND...\n");
        return 2;
}
