/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filemap - a program that maps a part of a large file, shared and writable, beside its memory of the device: as long
 * as the addresses of the device's memory are high, so that its offsets in the file and those addresses have some in
 * common. A gate cannot tell afterwards what lies there, so it may refuse; but the program goes on.
 *
 * "mapped" or "refused", and "still here" after a while. With an argument another thread maps it, before there is
 * memory of the device, and waits for ever.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH (1ul << 40)

static void *map_part(void *wait)
{
        int file = memfd_create("store", MFD_CLOEXEC);

        if (file < 0 || ftruncate(file, (off_t)LENGTH) < 0)
                _exit(4);
        if (mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 2 << 20) != MAP_FAILED)
                printf("mapped\n");
        else if (errno == ENOMEM)
                printf("refused\n");
        while (wait)
                (void)pause();
        return NULL;
}

static int memory_take(CUdeviceptr *at)
{
        CUcontext context;

        return cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
               cuCtxSetCurrent(context) == CUDA_SUCCESS && cuMemAlloc(at, 64 << 20) == CUDA_SUCCESS &&
               cuMemAllocManaged(at, 4 << 20, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS &&
               cuMemAllocAsync(at, 4 << 20, NULL) == CUDA_SUCCESS; /* at a low address */
}

int main(int argc, char **argv)
{
        pthread_t thread;
        CUdeviceptr at;

        if (argc > 1 && (cuInit(0) != CUDA_SUCCESS || pthread_create(&thread, NULL, map_part, argv)))
                return 2;
        (void)usleep(argc > 1 ? 500 * 1000 : 100 * 1000); /* of a thread the gate sees that it waits, some ms later */
        if (!memory_take(&at))
                return 3;
        printf("memory at 0x%llx\n", (unsigned long long)at);
        if (argc == 1)
                (void)map_part(NULL);
        (void)usleep(1500 * 1000);
        if (cuMemAlloc(&at, 64 << 20) != CUDA_SUCCESS)
                return 5;
        printf("still here\n");
        return 0;
}
