/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filemap - a program that maps a part of a large file, shared and writable, beside its memory of the device: as long
 * as the addresses of the device's memory are high, so that its offsets in the file and those addresses have some in
 * common. A gate cannot tell afterwards what lies there, so it may refuse; but the program goes on.
 *
 * "mapped" or "refused", and "still here" after a while.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
        const size_t length = 1ul << 40;
        int file = memfd_create("store", MFD_CLOEXEC);
        CUcontext context;
        CUdeviceptr at;

        if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
            cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&at, 64 << 20) != CUDA_SUCCESS ||
            cuMemAllocManaged(&at, 4 << 20, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS ||
            cuMemAllocAsync(&at, 4 << 20, NULL) != CUDA_SUCCESS) /* at a low address */
                return 3;
        printf("memory at 0x%llx\n", (unsigned long long)at);
        if (file < 0 || ftruncate(file, (off_t)length) < 0)
                return 4;
        if (mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 2 << 20) != MAP_FAILED)
                printf("mapped\n");
        else if (errno == ENOMEM)
                printf("refused\n");
        (void)usleep(300 * 1000);
        if (cuMemAlloc(&at, 64 << 20) != CUDA_SUCCESS)
                return 5;
        printf("still here\n");
        return 0;
}
