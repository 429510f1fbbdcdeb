/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen contexts of a process compute at once: each has channel groups of its own on the device's run list. */
#include "kit_time.h"

#include <pthread.h>
#include <stdio.h>

enum {
        CONTEXTS = 15,
};

static void *other(void *unused)
{
        CUcontext context;
        CUdevice device;

        (void)unused;
        if (cuDeviceGet(&device, 0) == CUDA_SUCCESS && cuCtxCreate(&context, NULL, 0, device) == CUDA_SUCCESS) {
                time_context();
                (void)time_compute_for(60 * 1000);
        }
        return NULL;
}

int main(void)
{
        pthread_t thread;

        time_start();
        for (int i = 0; i < CONTEXTS; i++)
                if (pthread_create(&thread, NULL, other, NULL))
                        kit_cannot("no thread");
        time_compute();
        return 0;
}
