/* SPDX-License-Identifier: Apache-2.0 */
/*
 * corners - what the families do not show of a CUDA library's calls into the driver.
 *
 *      corners small | contexts | green | virtual | full
 *
 * small: allocations below 2 MiB of each kind, streams, pools of odd sizes, advice about managed memory. contexts: a
 * second context beside the first. green: some of the multiprocessors, and a stream on them. virtual: memory of
 * cuMemCreate passes to a child by descriptor. full: more than there is. Prints corner=NAME ok, or the call that
 * failed; exit status 3.
 *
 * Recorded on a device (tools/record.c), its calls are in tests/gpu/calls; the integration test sim compares.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static CUdevice device;

#define MUST(call)                                                                                                     \
        do {                                                                                                           \
                CUresult must_ = (call);                                                                               \
                if (must_ != CUDA_SUCCESS)                                                                             \
                        fail(#call, must_);                                                                            \
        } while (0)

static _Noreturn void fail(const char *what, CUresult r)
{
        const char *name = NULL;

        (void)cuGetErrorName(r, &name);
        printf("unexpected=%s at=\"%s\"\n", name ? name : "?", what);
        exit(3);
}

static void mark(const char *text)
{
        void (*record)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "sublet_record_mark");

        if (record)
                record(text);
}

static void context_start(void)
{
        CUcontext context;

        MUST(cuInit(0));
        MUST(cuDeviceGet(&device, 0));
        MUST(cuDevicePrimaryCtxRetain(&context, device));
        MUST(cuCtxSetCurrent(context));
}

/* ---- small ----------------------------------------------------------------------------------- */

static void small_device_and_host(void)
{
        CUdeviceptr at[5];
        void *host[3], *pages;

        mark("alloc 512k");
        MUST(cuMemAlloc(&at[0], 512 * KIB));
        mark("alloc 1m");
        MUST(cuMemAlloc(&at[1], MIB));
        mark("alloc 1m+1");
        MUST(cuMemAlloc(&at[2], MIB + 1));
        mark("alloc 3m");
        MUST(cuMemAlloc(&at[3], 3 * MIB));
        mark("alloc 5m-1");
        MUST(cuMemAlloc(&at[4], 5 * MIB - 1));
        mark("free 1m");
        MUST(cuMemFree(at[1]));
        mark("free 512k");
        MUST(cuMemFree(at[0]));
        mark("free 1m+1");
        MUST(cuMemFree(at[2]));
        mark("host 4k");
        MUST(cuMemAllocHost(&host[0], 4 * KIB));
        mark("host 1m");
        MUST(cuMemAllocHost(&host[1], MIB));
        mark("host 2m");
        MUST(cuMemAllocHost(&host[2], 2 * MIB));
        mark("hostfree 4k");
        MUST(cuMemFreeHost(host[0]));
        mark("hostfree 1m");
        MUST(cuMemFreeHost(host[1]));
        mark("hostreg 4k");
        pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(cuMemHostRegister(pages, 4 * KIB, 0));
        mark("hostunreg");
        MUST(cuMemHostUnregister(pages));
}

static void small_streams_and_pools(CUstream *ret)
{
        CUmemoryPool pool;
        CUstream urgent;
        CUevent events[4];
        CUdeviceptr at[3];

        mark("stream");
        MUST(cuStreamCreate(ret, CU_STREAM_NON_BLOCKING));
        mark("stream prio");
        MUST(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, -1));
        mark("stream destroy");
        MUST(cuStreamDestroy(urgent));
        mark("events");
        for (int i = 0; i < 4; i++)
                MUST(cuEventCreate(&events[i], 0));
        mark("defpool");
        MUST(cuDeviceGetDefaultMemPool(&pool, device));
        mark("async 1k");
        MUST(cuMemAllocAsync(&at[0], KIB, *ret));
        mark("async 1k b");
        MUST(cuMemAllocAsync(&at[1], KIB, *ret));
        mark("async 40m");
        MUST(cuMemAllocAsync(&at[2], 40 * MIB, *ret));
        mark("freeasync");
        MUST(cuMemFreeAsync(at[0], *ret));
        MUST(cuMemFreeAsync(at[2], *ret));
        mark("sync");
        MUST(cuStreamSynchronize(*ret));
        mark("freeasync b");
        MUST(cuMemFreeAsync(at[1], *ret));
        MUST(cuStreamSynchronize(*ret));
}

static void small_arrays_and_managed(CUstream stream)
{
        CUDA_ARRAY_DESCRIPTOR shape = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
        CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, device };
        CUdeviceptr at[3];
        CUarray array;

        mark("small array");
        MUST(cuArrayCreate(&array, &shape));
        mark("small array destroy");
        MUST(cuArrayDestroy(array));
        mark("managed small");
        MUST(cuMemAllocManaged(&at[0], 4 * KIB, CU_MEM_ATTACH_GLOBAL));
        mark("managed small 2");
        MUST(cuMemAllocManaged(&at[1], 4 * KIB, CU_MEM_ATTACH_GLOBAL));
        mark("managed 10m");
        MUST(cuMemAllocManaged(&at[2], 10 * MIB, CU_MEM_ATTACH_GLOBAL));
        mark("advise pref");
        MUST(cuMemAdvise(at[2], 10 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
        mark("advise acc");
        MUST(cuMemAdvise(at[2], 10 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
        mark("advise ro");
        MUST(cuMemAdvise(at[2], 10 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
        mark("prefetch");
        MUST(cuMemPrefetchAsync(at[2], 10 * MIB, here, 0, stream));
        MUST(cuStreamSynchronize(stream));
        mark("managed free");
        MUST(cuMemFree(at[2]));
        MUST(cuMemFree(at[0]));
}

static void small(void)
{
        CUstream stream;

        context_start();
        small_device_and_host();
        small_streams_and_pools(&stream);
        small_arrays_and_managed(stream);
        mark("end");
}

/* ---- contexts -------------------------------------------------------------------------------- */

static void contexts(void)
{
        CUcontext a, b;
        CUdeviceptr at;

        MUST(cuInit(0));
        MUST(cuDeviceGet(&device, 0));
        mark("ctx a");
        MUST(cuCtxCreate(&a, NULL, 0, device));
        mark("ctx b");
        MUST(cuCtxCreate(&b, NULL, 0, device));
        mark("alloc b");
        MUST(cuMemAlloc(&at, 4 * MIB));
        mark("destroy b");
        MUST(cuCtxDestroy(b)); /* with its memory */
        mark("destroy a");
        MUST(cuCtxDestroy(a));
        mark("end");
}

static void green(void)
{
        CUdevResource all, part;
        CUdevResourceDesc desc;
        unsigned int one = 1;
        CUgreenCtx green;
        CUcontext context;
        CUstream stream;
        CUdeviceptr at;

        MUST(cuInit(0));
        MUST(cuDeviceGet(&device, 0));
        MUST(cuDevicePrimaryCtxRetain(&context, device));
        MUST(cuCtxSetCurrent(context));
        mark("green");
        MUST(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
        MUST(cuDevSmResourceSplitByCount(&part, &one, &all, NULL, 0, 32));
        MUST(cuDevResourceGenerateDesc(&desc, &part, 1));
        MUST(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
        MUST(cuCtxFromGreenCtx(&context, green));
        MUST(cuCtxSetCurrent(context));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&at, 32));
        MUST(cuMemAlloc(&at, 64));
        mark("end");
}

/* ---- virtual --------------------------------------------------------------------------------- */

static void send_fd(int socket, int fd)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr header;
        } control = { .header = {
                              .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
        char byte = 0;
        struct iovec vector = { &byte, 1 };
        struct msghdr message = { .msg_iov = &vector,
                                  .msg_iovlen = 1,
                                  .msg_control = control.bytes,
                                  .msg_controllen = sizeof(control.bytes) };

        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        if (sendmsg(socket, &message, 0) != 1)
                exit(3);
}

static int receive_fd(int socket)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr header;
        } control;
        char byte;
        struct iovec vector = { &byte, 1 };
        struct msghdr message = { .msg_iov = &vector,
                                  .msg_iovlen = 1,
                                  .msg_control = control.bytes,
                                  .msg_controllen = sizeof(control.bytes) };
        int fd;

        if (recvmsg(socket, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
                exit(3);
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
        return fd;
}

static CUdeviceptr place(CUmemGenericAllocationHandle handle, size_t size)
{
        CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
                                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        CUdeviceptr at;

        mark("reserve");
        MUST(cuMemAddressReserve(&at, size, 0, 0, 0));
        mark("map");
        MUST(cuMemMap(at, 4 * MIB, 0, handle, 0));
        mark("access");
        MUST(cuMemSetAccess(at, 4 * MIB, &access, 1));
        return at;
}

static void importer(int socket)
{
        CUmemGenericAllocationHandle handle;
        CUdeviceptr at;
        uint32_t word = 0;
        int fd;

        context_start();
        fd = receive_fd(socket);
        mark("import");
        MUST(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        at = place(handle, 4 * MIB);
        MUST(cuMemcpyDtoH(&word, at, 4));
        mark("unmap");
        MUST(cuMemUnmap(at, 4 * MIB));
        mark("addrfree");
        MUST(cuMemAddressFree(at, 4 * MIB));
        mark("release");
        MUST(cuMemRelease(handle));
        mark("end");
        if (write(socket, &word, 4) != 4)
                exit(3);
        exit(0);
}

static void virtual(void)
{
        CUmemAllocationProp property = {
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
        };
        CUmemGenericAllocationHandle handle;
        CUdeviceptr at;
        uint32_t word = 0;
        int pair[2], fd = -1, status = 0;
        pid_t child;

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
                exit(3);
        child = fork(); /* before cuInit */
        if (child == 0)
                importer(pair[1]);
        close(pair[1]);
        context_start();
        mark("create");
        MUST(cuMemCreate(&handle, 4 * MIB, &property, 0));
        at = place(handle, 8 * MIB);
        MUST(cuMemsetD32(at, 0x5b5b1e7, MIB));
        MUST(cuCtxSynchronize());
        mark("export");
        MUST(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        mark("send");
        send_fd(pair[0], fd);
        close(fd);
        if (read(pair[0], &word, 4) != 4 || word != 0x5b5b1e7)
                fail("what the importer saw", CUDA_ERROR_UNKNOWN);
        mark("unmap");
        MUST(cuMemUnmap(at, 4 * MIB));
        mark("release");
        MUST(cuMemRelease(handle));
        mark("addrfree");
        MUST(cuMemAddressFree(at, 8 * MIB));
        mark("end");
        if (waitpid(child, &status, 0) != child || status)
                fail("the importer", CUDA_ERROR_UNKNOWN);
}

/* ---- full ------------------------------------------------------------------------------------ */

static void full(void)
{
        CUdeviceptr at;
        CUresult r;

        context_start();
        mark("oom");
        r = cuMemAlloc(&at, 200 * GIB);
        if (r != CUDA_ERROR_OUT_OF_MEMORY)
                fail("cuMemAlloc", r);
        mark("usable");
        MUST(cuMemAlloc(&at, 4 * MIB));
        MUST(cuMemFree(at));
        mark("end");
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(void);
        } corners[] = { { "small", small },
                        { "contexts", contexts },
                        { "green", green },
                        { "virtual", virtual },
                        { "full", full } };

        for (size_t i = 0; argc == 2 && i < sizeof(corners) / sizeof(*corners); i++) {
                if (strcmp(argv[1], corners[i].name) != 0)
                        continue;
                corners[i].run();
                printf("corner=%s ok\n", argv[1]);
                return 0;
        }
        fprintf(stderr, "usage: corners small | contexts | virtual | full\n");
        return 2;
}
