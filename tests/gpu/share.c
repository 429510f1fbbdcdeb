/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share - device memory from one program to another that knows nothing of it but a file.
 *
 *      share give FILE MiB     allocates, puts the IPC handle into FILE, keeps it until FILE.end is there
 *      share take FILE         opens it, says so, and keeps it until FILE.end is there
 *      share offer FILE MiB    the same by a shareable descriptor, sent to whoever connects to FILE
 *      share fetch FILE
 *
 * When FILE.free is there, the giver frees its memory and asks for as much again, which it says in FILE.again:
 * CUDA_ERROR_OUT_OF_MEMORY where it is still charged for what the taker has. SHARE_DEVICE: another device than 0.
 *
 *      give=ok mib=512
 *      take=CUDA_SUCCESS seen=5eedf00d free_mib=1024
 *
 * `seen` is the first word of the memory, which the giver wrote as 5eedf00d. Exit status: 0; 3 when it
 * was refused.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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
                r = cuDeviceGet(&device, getenv("SHARE_DEVICE") ? atoi(getenv("SHARE_DEVICE")) : 0);
        if (r == CUDA_SUCCESS)
                r = cuDevicePrimaryCtxRetain(&context, device);
        return r == CUDA_SUCCESS ? cuCtxSetCurrent(context) : r;
}

static bool is_there(const char *file, const char *suffix)
{
        char path[4096];

        (void)snprintf(path, sizeof(path), "%s.%s", file, suffix);
        return access(path, F_OK) == 0;
}

static void wait_for_end(const char *file)
{
        (void)fflush(stdout);
        for (int i = 0; i < WAITS && !is_there(file, "end"); i++)
                (void)usleep(20000);
}

/* What became of asking again, whole at once. */
static void say_again(const char *file, CUresult r)
{
        char new[4096], path[4096];
        FILE *to;

        (void)snprintf(new, sizeof(new), "%s.again.new", file);
        (void)snprintf(path, sizeof(path), "%s.again", file);
        to = fopen(new, "w");
        if (!to)
                return;
        (void)fprintf(to, "%s\n", name_of(r));
        if (fclose(to) == 0)
                (void)rename(new, path);
}

/* The giver's wait: frees its memory when it is told to, and asks for as much until it is told to end. */
static void wait_and_free(const char *file, size_t mib, CUresult (*give_up)(void))
{
        CUdeviceptr again = 0;
        bool is_freed = false;
        CUresult r = CUDA_SUCCESS;

        (void)fflush(stdout);
        for (int i = 0; i < WAITS && !is_there(file, "end"); i++) {
                if (!is_freed && is_there(file, "free")) {
                        is_freed = true;
                        r = give_up();
                        r = r == CUDA_SUCCESS ? cuMemAlloc(&again, mib << 20) : r;
                        say_again(file, r);
                } else if (is_freed && r == CUDA_ERROR_OUT_OF_MEMORY) {
                        r = cuMemAlloc(&again, mib << 20);
                        if (r == CUDA_SUCCESS)
                                say_again(file, r);
                }
                (void)usleep(20000);
        }
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

static CUdeviceptr given;

static CUresult given_free(void)
{
        CUresult r = given ? cuMemFree(given) : CUDA_SUCCESS;

        given = 0;
        return r;
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
        given = at;
        wait_and_free(file, mib, given_free);
        return given_free() == CUDA_SUCCESS ? 0 : 3;
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

/* ---- by a descriptor ---------------------------------------------------------------------------------------- */

static struct {
        CUmemGenericAllocationHandle handle;
        CUdeviceptr at;
        size_t size;
} chunk;

static CUresult chunk_map(void)
{
        CUmemAccessDesc access = { .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        CUdevice device;
        CUresult r = cuCtxGetDevice(&device);

        access.location.id = device;
        if (r == CUDA_SUCCESS)
                r = cuMemAddressReserve(&chunk.at, chunk.size, 0, 0, 0);
        if (r == CUDA_SUCCESS)
                r = cuMemMap(chunk.at, chunk.size, 0, chunk.handle, 0);
        return r == CUDA_SUCCESS ? cuMemSetAccess(chunk.at, chunk.size, &access, 1) : r;
}

static CUresult chunk_free(void)
{
        CUresult r = CUDA_SUCCESS;

        if (chunk.at)
                r = cuMemUnmap(chunk.at, chunk.size);
        if (r == CUDA_SUCCESS && chunk.handle)
                r = cuMemRelease(chunk.handle);
        chunk.at = 0;
        chunk.handle = 0;
        return r;
}

static CUresult chunk_new(size_t mib, int *ret_fd)
{
        CUmemAllocationProp property = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         .location.type = CU_MEM_LOCATION_TYPE_DEVICE };
        CUdevice device;
        CUresult r = cuCtxGetDevice(&device);

        property.location.id = device;
        chunk.size = mib << 20;
        if (r == CUDA_SUCCESS)
                r = cuMemCreate(&chunk.handle, chunk.size, &property, 0);
        if (r == CUDA_SUCCESS)
                r = chunk_map();
        if (r == CUDA_SUCCESS)
                r = cuMemsetD32(chunk.at, 0x5eedf00d, 1024);
        if (r == CUDA_SUCCESS)
                r = cuCtxSynchronize();
        return r == CUDA_SUCCESS ?
                       cuMemExportToShareableHandle(ret_fd, chunk.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) :
                       r;
}

static int socket_at(const char *file, bool is_giver)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", file);
        if (fd < 0 || (is_giver ? bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4) < 0 :
                                  connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0))
                return -1;
        return fd;
}

static int exchange(int with, size_t *mib, int fd)
{
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(sizeof(int))];
        } control = { 0 };
        struct iovec data = { mib, sizeof(*mib) };
        struct msghdr message = {
                .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };

        if (fd >= 0) {
                control.head = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
                memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
                return sendmsg(with, &message, 0) < 0 ? -1 : 0;
        }
        if (recvmsg(with, &message, 0) <= 0 || control.head.cmsg_len != CMSG_LEN(sizeof(int)))
                return -1;
        memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
        return fd;
}

static int offer(const char *file, size_t mib)
{
        int fd = -1, server = socket_at(file, true), with = -1;
        CUresult r = begin();

        if (r == CUDA_SUCCESS)
                r = chunk_new(mib, &fd);
        printf("offer=%s mib=%zu\n", name_of(r), mib);
        (void)fflush(stdout);
        if (r != CUDA_SUCCESS || server < 0)
                return 3;
        if (access(file, F_OK) == 0)
                with = accept(server, NULL, NULL);
        if (with < 0 || exchange(with, &mib, fd) < 0)
                return 3;
        (void)close(fd);
        (void)close(with);
        wait_and_free(file, mib, chunk_free);
        return chunk_free() == CUDA_SUCCESS ? 0 : 3;
}

static int fetch(const char *file)
{
        size_t mib = 0;
        uint32_t seen = 0;
        int with = socket_at(file, false), fd = with < 0 ? -1 : exchange(with, &mib, -1);
        CUresult r = fd < 0 ? CUDA_ERROR_FILE_NOT_FOUND : begin();

        chunk.size = mib << 20;
        if (r == CUDA_SUCCESS)
                r = cuMemImportFromShareableHandle(&chunk.handle, (void *)(uintptr_t)fd,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        if (r == CUDA_SUCCESS)
                r = chunk_map();
        (void)close(fd);
        if (r == CUDA_SUCCESS)
                r = cuMemcpyDtoH(&seen, chunk.at, sizeof(seen));
        printf("fetch=%s seen=%x\n", name_of(r), seen);
        if (r != CUDA_SUCCESS)
                return 3;
        wait_for_end(file);
        return chunk_free() == CUDA_SUCCESS ? 0 : 3;
}

int main(int argc, char **argv)
{
        if (argc == 4 && strcmp(argv[1], "give") == 0)
                return give(argv[2], strtoul(argv[3], NULL, 0));
        if (argc == 3 && strcmp(argv[1], "take") == 0)
                return take(argv[2]);
        if (argc == 4 && strcmp(argv[1], "offer") == 0)
                return offer(argv[2], strtoul(argv[3], NULL, 0));
        if (argc == 3 && strcmp(argv[1], "fetch") == 0)
                return fetch(argv[2]);
        fprintf(stderr, "usage: share give FILE MiB | take FILE | offer FILE MiB | fetch FILE\n");
        return 2;
}
