/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of the matrix share. */
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(call)                                                                                                     \
        do {                                                                                                           \
                int must_status = (int)(call);                                                                         \
                if (must_status) {                                                                                     \
                        printf("%s: %d\n", #call, must_status);                                                        \
                        exit(1);                                                                                       \
                }                                                                                                      \
        } while (0)

static inline double now(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The sum of size bytes of device memory. */
static inline unsigned long long device_sum(const void *device, size_t size)
{
        uint8_t *host = (uint8_t *)malloc(size);
        unsigned long long sum = 0;
        MUST(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < size; i++)
                sum += host[i];
        free(host);
        return sum;
}
