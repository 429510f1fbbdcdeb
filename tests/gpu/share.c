/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share - device memory from one program to another that knows nothing of it but a file.
 *
 *      share give FILE MiB     allocates, puts the IPC handle into FILE, keeps it until FILE.end is there
 *      share take FILE         opens it, says so, and keeps it until FILE.end is there
 *
 *      give=ok mib=512
 *      take=CUDA_SUCCESS seen=5eedf00d free_mib=1024
 *
 * `seen` is the first word of the memory, which the giver wrote as 5eedf00d. Exit status: 0; 3 when it
 * was refused.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        WAITS = 3000, /* of 20 ms */
};

static const char *name_of(CUresult r)
{
        const char *name = NULL;

        return cuGetErrorName(r, &name) == CUDA_SUCCESS && name ? name : "CUDA_ERROR_?";
}

static CUresult begin(void)
{
        CUdevice device;
        CUcontext context;
        CUresult r = cuInit(0);

        if (r == CUDA_SUCCESS)
                r = cuDeviceGet(&device, 0);
        if (r == CUDA_SUCCESS)
                r = cuDevicePrimaryCtxRetain(&context, device);
        return r == CUDA_SUCCESS ? cuCtxSetCurrent(context) : r;
}

static void wait_for_end(const char *file)
{
        char end[4096];

        (void)fflush(stdout);
        (void)snprintf(end, sizeof(end), "%s.end", file);
        for (int i = 0; i < WAITS && access(end, F_OK) != 0; i++)
                (void)usleep(20000);
}

/* Whole at once: the taker may look at any moment. */
static int handle_write(const char *file, const CUipcMemHandle *handle)
{
        char new[4096];
        FILE *to;
        size_t n;

        (void)snprintf(new, sizeof(new), "%s.new", file);
        to = fopen(new, "w");
        if (!to)
                return -1;
        n = fwrite(handle, sizeof(*handle), 1, to);
        return fclose(to) != 0 || n != 1 ? -1 : rename(new, file);
}

static int handle_read(const char *file, CUipcMemHandle *ret)
{
        FILE *from = fopen(file, "r");
        size_t n;

        if (!from)
                return -1;
        n = fread(ret, sizeof(*ret), 1, from);
        (void)fclose(from);
        return n == 1 ? 0 : -1;
}

static int give(const char *file, size_t mib)
{
        CUipcMemHandle handle;
        CUdeviceptr at = 0;
        CUresult r = begin();

        if (r == CUDA_SUCCESS)
                r = cuMemAlloc(&at, mib << 20);
        if (r == CUDA_SUCCESS)
                r = cuMemsetD32(at, 0x5eedf00d, 1024);
        if (r == CUDA_SUCCESS)
                r = cuCtxSynchronize();
        if (r == CUDA_SUCCESS)
                r = cuIpcGetMemHandle(&handle, at);
        if (r != CUDA_SUCCESS || handle_write(file, &handle) < 0) {
                printf("give=%s\n", name_of(r));
                return 3;
        }
        printf("give=ok mib=%zu\n", mib);
        wait_for_end(file);
        return cuMemFree(at) == CUDA_SUCCESS ? 0 : 3;
}

static int take(const char *file)
{
        CUipcMemHandle handle;
        CUdeviceptr at = 0;
        uint32_t seen = 0;
        size_t free_bytes = 0, total = 0;
        CUresult r = handle_read(file, &handle) < 0 ? CUDA_ERROR_FILE_NOT_FOUND : begin();

        if (r == CUDA_SUCCESS)
                r = cuIpcOpenMemHandle(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (r == CUDA_SUCCESS)
                r = cuMemcpyDtoH(&seen, at, sizeof(seen));
        (void)cuMemGetInfo(&free_bytes, &total);
        printf("take=%s seen=%x free_mib=%zu\n", name_of(r), seen, free_bytes >> 20);
        if (r != CUDA_SUCCESS)
                return 3;
        wait_for_end(file);
        return cuIpcCloseMemHandle(at) == CUDA_SUCCESS ? 0 : 3;
}

int main(int argc, char **argv)
{
        if (argc == 4 && strcmp(argv[1], "give") == 0)
                return give(argv[2], strtoul(argv[3], NULL, 0));
        if (argc == 3 && strcmp(argv[1], "take") == 0)
                return take(argv[2]);
        fprintf(stderr, "usage: share give FILE MiB | take FILE\n");
        return 2;
}
