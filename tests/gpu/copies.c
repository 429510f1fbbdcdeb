/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies - a program that only copies: pinned host memory to the device, a few copies in flight.
 *
 *      copies SECONDS [MIB [IN-FLIGHT]]        64 MiB, 2 in flight on each of two streams
 *
 * Prints "at=NS done=N" each 100 ms (clock of CLOCK_MONOTONIC, copies since the start), and at the end
 * "copies=N seconds=S gib_s=G". Starts when standard input has a line, or ends.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
        IN_FLIGHT_MAX = 64, /* on each stream */
};

#define MIB (1ul << 20)
#define EVERY 100000000ll /* ns */

static void check(CUresult result, const char *what)
{
        if (result == CUDA_SUCCESS)
                return;
        printf("copies: %s: %d\n", what, (int)result);
        exit(1);
}

static int64_t now(void)
{
        struct timespec time;

        (void)clock_gettime(CLOCK_MONOTONIC, &time);
        return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void run(double seconds, size_t bytes, unsigned int in_flight)
{
        CUdeviceptr device;
        CUstream streams[2];
        uint64_t n = 0;
        int64_t begin, said;
        void *host;

        check(cuMemAlloc(&device, bytes), "cuMemAlloc");
        check(cuMemHostAlloc(&host, bytes, 0), "cuMemHostAlloc");
        for (unsigned int i = 0; i < 2; i++)
                check(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        printf("ready\n");
        (void)fflush(stdout);
        while (getchar() > '\n')
                ;
        begin = said = now();
        for (unsigned int turn = 0; now() - begin < (int64_t)(seconds * 1e9); turn ^= 1) {
                check(cuStreamSynchronize(streams[turn]), "cuStreamSynchronize");
                for (unsigned int i = 0; i < in_flight; i++, n++)
                        check(cuMemcpyHtoDAsync(device, host, bytes, streams[turn]), "cuMemcpyHtoDAsync");
                if (now() - said < EVERY)
                        continue;
                said = now();
                printf("at=%lld done=%llu\n", (long long)said, (unsigned long long)n);
                (void)fflush(stdout);
        }
        check(cuCtxSynchronize(), "cuCtxSynchronize");
        seconds = (double)(now() - begin) / 1e9;
        printf("copies=%llu seconds=%.3f gib_s=%.2f\n", (unsigned long long)n, seconds,
               (double)n * (double)bytes / seconds / (double)(1ul << 30));
}

int main(int argc, char **argv)
{
        unsigned int in_flight = argc > 3 ? (unsigned int)atoi(argv[3]) : 2;
        CUcontext context;
        CUdevice device;

        if (argc < 2 || in_flight < 1 || in_flight > IN_FLIGHT_MAX) {
                (void)fprintf(stderr, "usage: copies SECONDS [MIB [IN-FLIGHT]]\n");
                return 2;
        }
        check(cuInit(0), "cuInit");
        check(cuDeviceGet(&device, 0), "cuDeviceGet");
        check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
        check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
        run(atof(argv[1]), (size_t)(argc > 2 ? atol(argv[2]) : 64) * MIB, in_flight);
        return 0;
}
