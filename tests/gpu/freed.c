/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freed - does the driver keep memory that RM has freed while a UVM space still maps it? An answer for
 * docs/rm-abi.md 10, point 6. Allocates 1 GiB, frees it with UVM_FREE (34) held back, then lets it through;
 * prints the device's free memory, as a context of its own process sees it, at each step.
 *
 *      gcc -O2 tests/gpu/freed.c -o freed -lcuda
 *      freed
 *      before=142111 allocated=141087 rm_freed=141087 uvm_freed=142111
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        UVM_FREE = 34,
        BLOCK = 24,
        STATUS_AT = 16,
};

static bool holds_back;
static int held_fd = -1;
static unsigned char held[BLOCK];

/* In the way of libcuda, which resolves ioctl to the program's. */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
        va_list args;
        void *block;

        va_start(args, request);
        block = va_arg(args, void *);
        va_end(args);
        if (holds_back && request == UVM_FREE) {
                held_fd = fd;
                memcpy(held, block, sizeof(held));
                memset((unsigned char *)block + STATUS_AT, 0, 4);
                return 0;
        }
        return (int)syscall(SYS_ioctl, fd, request, block);
}

static size_t free_mib(void)
{
        size_t left = 0, total = 0;

        (void)cuMemGetInfo(&left, &total);
        return left >> 20;
}

int main(void)
{
        size_t before, allocated, rm_freed, uvm_freed;
        CUdevice device;
        CUcontext context;
        CUdeviceptr at;

        if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
            cuCtxSetCurrent(context))
                return 3;
        before = free_mib();
        if (cuMemAlloc(&at, (size_t)1 << 30))
                return 3;
        allocated = free_mib();
        holds_back = true;
        if (cuMemFree(at))
                return 3;
        holds_back = false;
        rm_freed = free_mib();
        if (held_fd < 0)
                return 3;
        (void)syscall(SYS_ioctl, held_fd, (unsigned long)UVM_FREE, held);
        uvm_freed = free_mib();
        printf("before=%zu allocated=%zu rm_freed=%zu uvm_freed=%zu\n", before, allocated, rm_freed, uvm_freed);
        return 0;
}
