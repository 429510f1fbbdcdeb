/* SPDX-License-Identifier: Apache-2.0 */
/* file PATH - cuFile: writes 64 MiB of device memory to a file, reads it back into another piece, compares. */
#define _GNU_SOURCE
#include "clock.h"

#include <cufile.h>
#include <fcntl.h>
#include <unistd.h>

enum { SIZE = 64 << 20 };

int main(int argc, char **argv)
{
        void *from, *to;
        CUfileHandle_t handle;
        CUfileDescr_t about = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD };
        if (argc < 2)
                return 2;
        CUfileError_t opened = cuFileDriverOpen();
        printf("driver open=%d\n", opened.err);
        about.handle.fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
        MUST(about.handle.fd < 0);
        MUST(cudaMalloc(&from, SIZE));
        MUST(cudaMalloc(&to, SIZE));
        MUST(cudaMemset(from, 0x5a, SIZE));
        MUST(cudaMemset(to, 0, SIZE));
        MUST(cudaDeviceSynchronize());
        MUST(cuFileHandleRegister(&handle, &about).err);
        printf("register=%d\n", cuFileBufRegister(from, SIZE, 0).err);
        ssize_t wrote = cuFileWrite(handle, from, SIZE, 0, 0), got = cuFileRead(handle, to, SIZE, 0, 0);
        printf("wrote=%zd read=%zd sum=%llu\n", wrote, got, device_sum(to, SIZE));
        double begin = now();
        unsigned n = 0;
        do {
                n += cuFileRead(handle, to, SIZE, 0, 0) == SIZE;
        } while (n && now() < begin + 0.4);
        printf("rate=%.2f GiB/s\n", n / 16.0 / (now() - begin));
        cuFileHandleDeregister(handle);
        unlink(argv[1]);
        return wrote != SIZE || got != SIZE;
}
