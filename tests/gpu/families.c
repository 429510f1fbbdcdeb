/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families - every way a CUDA program obtains device memory, one at a time.
 *
 *      families FAMILY [STEP-MiB] [MAX-MiB]
 *      families start | exit | meminfo
 *
 * A family is grown step by step until CUDA_ERROR_OUT_OF_MEMORY or MAX; then everything is freed,
 * half of it is taken again, a kernel writes it and another one checks it. That is what a quota
 * must leave working: refusal at the bound, no charge left behind, and memory that is really there.
 *
 *      family=alloc got_mib=7424 n=116 last=CUDA_ERROR_OUT_OF_MEMORY total_mib=8192 free_mib=21
 *      after=ok got_mib=3712 n=58
 *
 * total_mib and free_mib are cuMemGetInfo at the bound. Exit status: 0 the family behaved; 3 an
 * unexpected CUDA error or wrong contents, which is printed; 2 usage.
 *
 * With FAMILIES_PEERS=1 the second device has a context, too, and each may reach the other's memory.
 *
 * Driver API only, through the names of cuda.h, so it runs on the simulator's libcuda.so.1 as well.
 * Its kernels stand in words.h.
 *
 * In the families `ipc` and `export` a child process is the importer: it is forked before cuInit,
 * has its own context (which costs memory of the same quota), and checks what the parent wrote.
 */
#define _GNU_SOURCE
#include "words.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static CUdevice device;
static CUcontext context;
static CUstream stream;
static CUfunction fill_kernel, check_kernel;
static CUdeviceptr bad_counter;

/* ---- small things ---------------------------------------------------------------------------- */

static const char *name_of(CUresult r)
{
        const char *name = NULL;

        return cuGetErrorName(r, &name) == CUDA_SUCCESS && name ? name : "CUDA_ERROR_?";
}

static _Noreturn void fail(const char *what, CUresult r)
{
        printf("unexpected=%s at=\"%s\"\n", name_of(r), what);
        (void)fprintf(stderr, "families: %s at %s\n", name_of(r), what); /* for whoever takes the other only */
        exit(3);
}

#define MUST(call)                                                                                                     \
        do {                                                                                                           \
                CUresult must_ = (call);                                                                               \
                if (must_ != CUDA_SUCCESS)                                                                             \
                        fail(#call, must_);                                                                            \
        } while (0)

#define TRY(call)                                                                                                      \
        do {                                                                                                           \
                CUresult try_ = (call);                                                                                \
                if (try_ != CUDA_SUCCESS)                                                                              \
                        return try_;                                                                                   \
        } while (0)

/* A phase mark for the recorder (tools/record.c), where it is loaded. */
static void mark(const char *text)
{
        void (*record)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "sublet_record_mark");

        if (record)
                record(text);
}

/* By name, since a library for one device may lack it. */
static void peers_start(void)
{
        CUresult (*enable)(CUcontext, unsigned int) =
                (CUresult(*)(CUcontext, unsigned int))dlsym(RTLD_DEFAULT, "cuCtxEnablePeerAccess");
        CUcontext other;
        CUdevice second;

        if (!enable)
                fail("cuCtxEnablePeerAccess", CUDA_ERROR_NOT_SUPPORTED);
        mark("peers");
        MUST(cuDeviceGet(&second, 1));
        MUST(cuDevicePrimaryCtxRetain(&other, second));
        MUST(enable(other, 0));
        MUST(cuCtxSetCurrent(other));
        MUST(enable(context, 0));
        MUST(cuCtxSetCurrent(context));
}

static void context_start(void)
{
        CUmodule module;

        mark("init");
        MUST(cuInit(0));
        MUST(cuDeviceGet(&device, 0));
        mark("context");
        MUST(cuDevicePrimaryCtxRetain(&context, device));
        MUST(cuCtxSetCurrent(context));
        mark("module");
        MUST(cuModuleLoadData(&module, words_ptx));
        MUST(cuModuleGetFunction(&fill_kernel, module, "sublet_fill"));
        MUST(cuModuleGetFunction(&check_kernel, module, "sublet_check"));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&bad_counter, 4096));
        if (getenv("FAMILIES_PEERS"))
                peers_start();
}

static CUresult fill(CUdeviceptr at, size_t bytes, uint32_t seed)
{
        uint64_t n = bytes / 4;
        void *arguments[] = { &at, &n, &seed };

        TRY(cuLaunchKernel(fill_kernel, 264, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
        return cuStreamSynchronize(stream);
}

/* By kernel for all of it, and through a copy for both ends: a check that did not run is no check. */
static CUresult count_wrong(CUdeviceptr at, size_t bytes, uint32_t seed, uint32_t *ret)
{
        uint64_t n = bytes / 4;
        uint32_t wrong = 0, ends[2] = { 0 };
        void *arguments[] = { &at, &n, &seed, &bad_counter };

        TRY(cuMemsetD32Async(bad_counter, 0, 1, stream));
        TRY(cuLaunchKernel(check_kernel, 264, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
        TRY(cuMemcpyDtoHAsync(&wrong, bad_counter, 4, stream));
        TRY(cuMemcpyDtoHAsync(&ends[0], at, 4, stream));
        TRY(cuMemcpyDtoHAsync(&ends[1], at + (n - 1) * 4, 4, stream));
        TRY(cuStreamSynchronize(stream));
        *ret = wrong + (ends[0] != seed) + (ends[1] != seed + (uint32_t)(n - 1));
        return CUDA_SUCCESS;
}

/* ---- the families ---------------------------------------------------------------------------- */

/* One step of a family. What is linear has `at`; an array is reached by copies. */
struct object {
        CUdeviceptr at;
        size_t bytes; /* usable at `at`, or through the array */
        void *host;
        CUmemGenericAllocationHandle handle;
        CUarray array;
        CUmipmappedArray mipmap;
        size_t width, height, depth; /* elements of 4 bytes; of the array */
        CUgraph graph;
        CUgraphExec exec;
};

struct family {
        const char *name;
        uint64_t most_mib; /* where it stops by itself; 0: at the bound of the device */
        CUresult (*grow)(struct object *object, size_t bytes);
        CUresult (*drop)(struct object *object);
        CUresult (*done)(void); /* gives back what the family caches */
        bool shared;            /* with the child */
};

static CUresult alloc_grow(struct object *o, size_t bytes)
{
        return cuMemAlloc(&o->at, bytes);
}

static CUresult alloc_drop(struct object *o)
{
        return cuMemFree(o->at);
}

/* Rows of 1000 x 4 bytes, which the driver pads; the padding is used as well. */
static CUresult pitch_grow(struct object *o, size_t bytes)
{
        size_t pitch = 0, rows = bytes / 4096;

        TRY(cuMemAllocPitch(&o->at, &pitch, 4000, rows, 4));
        o->bytes = pitch * rows;
        return CUDA_SUCCESS;
}

/* Managed memory is nowhere until touched; a kernel brings it to the device. */
static CUresult managed_grow(struct object *o, size_t bytes)
{
        CUresult r;

        TRY(cuMemAllocManaged(&o->at, bytes, CU_MEM_ATTACH_GLOBAL));
        r = fill(o->at, bytes, 7);
        if (r != CUDA_SUCCESS)
                (void)cuMemFree(o->at);
        return r;
}

static CUresult async_grow(struct object *o, size_t bytes)
{
        CUresult r;

        TRY(cuMemAllocAsync(&o->at, bytes, stream));
        r = cuStreamSynchronize(stream);
        return r;
}

static CUresult async_drop(struct object *o)
{
        return cuMemFreeAsync(o->at, stream);
}

static CUresult async_done(void)
{
        CUmemoryPool pool;

        TRY(cuStreamSynchronize(stream));
        TRY(cuDeviceGetDefaultMemPool(&pool, device));
        return cuMemPoolTrimTo(pool, 0);
}

static CUmemAllocationProp vmm_property(void)
{
        return (CUmemAllocationProp){
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
        };
}

static CUresult vmm_drop(struct object *o)
{
        TRY(cuMemUnmap(o->at, o->bytes));
        TRY(cuMemAddressFree(o->at, o->bytes));
        return cuMemRelease(o->handle);
}

static CUresult vmm_grow(struct object *o, size_t bytes)
{
        CUmemAllocationProp property = vmm_property();
        CUmemAccessDesc access = { property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        size_t granule = 0;
        CUresult r;

        TRY(cuMemGetAllocationGranularity(&granule, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        o->bytes = (bytes + granule - 1) / granule * granule;
        TRY(cuMemCreate(&o->handle, o->bytes, &property, 0));
        r = cuMemAddressReserve(&o->at, o->bytes, 0, 0, 0);
        if (r == CUDA_SUCCESS) {
                r = cuMemMap(o->at, o->bytes, 0, o->handle, 0);
                if (r == CUDA_SUCCESS) {
                        r = cuMemSetAccess(o->at, o->bytes, &access, 1);
                        if (r == CUDA_SUCCESS)
                                return r;
                        (void)cuMemUnmap(o->at, o->bytes);
                }
                (void)cuMemAddressFree(o->at, o->bytes);
        }
        (void)cuMemRelease(o->handle);
        return r;
}

static CUresult array_grow(struct object *o, size_t bytes)
{
        CUDA_ARRAY_DESCRIPTOR shape = {
                .Width = 4096,
                .Height = bytes / 16384,
                .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                .NumChannels = 1,
        };

        o->width = shape.Width;
        o->height = shape.Height;
        o->depth = 1;
        o->bytes = o->width * o->height * 4;
        return cuArrayCreate(&o->array, &shape);
}

static CUresult array_drop(struct object *o)
{
        return cuArrayDestroy(o->array);
}

static CUresult array3d_grow(struct object *o, size_t bytes)
{
        CUDA_ARRAY3D_DESCRIPTOR shape = {
                .Width = 512,
                .Height = 512,
                .Depth = bytes / MIB,
                .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                .NumChannels = 1,
        };

        o->width = shape.Width;
        o->height = shape.Height;
        o->depth = shape.Depth;
        o->bytes = o->width * o->height * o->depth * 4;
        return cuArray3DCreate(&o->array, &shape);
}

/* Four levels; the lower three are about a third of the first. Level 0 is what gets checked. */
static CUresult mipmap_grow(struct object *o, size_t bytes)
{
        CUDA_ARRAY3D_DESCRIPTOR shape = {
                .Width = 4096,
                .Height = bytes / 16384 * 3 / 4,
                .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                .NumChannels = 1,
        };
        CUresult r;

        o->width = shape.Width;
        o->height = shape.Height;
        o->depth = 1;
        o->bytes = o->width * o->height * 4;
        TRY(cuMipmappedArrayCreate(&o->mipmap, &shape, 4));
        r = cuMipmappedArrayGetLevel(&o->array, o->mipmap, 0);
        if (r != CUDA_SUCCESS)
                (void)cuMipmappedArrayDestroy(o->mipmap);
        return r;
}

static CUresult mipmap_drop(struct object *o)
{
        return cuMipmappedArrayDestroy(o->mipmap);
}

/* A graph that allocates and does not free: the memory outlives the launch, and is freed by us. */
static CUresult graph_grow(struct object *o, size_t bytes)
{
        CUDA_MEM_ALLOC_NODE_PARAMS node = {
                .poolProps = {
                        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                        .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
                },
                .bytesize = bytes,
        };
        CUgraphNode added;
        CUresult r;

        TRY(cuGraphCreate(&o->graph, 0));
        r = cuGraphAddMemAllocNode(&added, o->graph, NULL, 0, &node);
        if (r == CUDA_SUCCESS)
                r = cuGraphInstantiate(&o->exec, o->graph, 0);
        if (r == CUDA_SUCCESS) {
                r = cuGraphLaunch(o->exec, stream);
                if (r == CUDA_SUCCESS)
                        r = cuStreamSynchronize(stream);
                if (r != CUDA_SUCCESS)
                        (void)cuGraphExecDestroy(o->exec);
        }
        if (r != CUDA_SUCCESS) {
                (void)cuGraphDestroy(o->graph);
                return r;
        }
        o->at = node.dptr;
        return r;
}

static CUresult graph_drop(struct object *o)
{
        TRY(cuMemFreeAsync(o->at, stream));
        TRY(cuStreamSynchronize(stream));
        TRY(cuGraphExecDestroy(o->exec));
        return cuGraphDestroy(o->graph);
}

static CUresult graph_done(void)
{
        return cuDeviceGraphMemTrim(device);
}

static CUresult host_grow(struct object *o, size_t bytes)
{
        TRY(cuMemAllocHost(&o->host, bytes));
        return cuMemHostGetDevicePointer(&o->at, o->host, 0);
}

static CUresult host_drop(struct object *o)
{
        return cuMemFreeHost(o->host);
}

static CUresult register_grow(struct object *o, size_t bytes)
{
        CUresult r;

        o->host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (o->host == MAP_FAILED)
                return CUDA_ERROR_OPERATING_SYSTEM;
        r = cuMemHostRegister(o->host, bytes, CU_MEMHOSTREGISTER_DEVICEMAP);
        if (r == CUDA_SUCCESS)
                r = cuMemHostGetDevicePointer(&o->at, o->host, 0);
        if (r != CUDA_SUCCESS)
                (void)munmap(o->host, bytes);
        return r;
}

static CUresult register_drop(struct object *o)
{
        TRY(cuMemHostUnregister(o->host));
        (void)munmap(o->host, o->bytes);
        return CUDA_SUCCESS;
}

/* ---- two processes --------------------------------------------------------------------------- */

/* What the parent asks of the child, and the child's answer. A descriptor may come along. */
struct request {
        enum { ASK_POOL, ASK_IPC, ASK_POINTER, ASK_CLOSE, ASK_END } ask;
        int with_fd;
        size_t bytes;
        uint32_t seed;
        CUipcMemHandle ipc;
        CUmemPoolPtrExportData pointer;
};

struct reply {
        CUresult result;
        uint32_t wrong;
};

static int child_socket = -1;
static pid_t child;
static CUmemoryPool export_pool;

static void send_request(int to, const struct request *request, int fd)
{
        char room[CMSG_SPACE(sizeof(int))] = { 0 };
        struct iovec part = { (void *)(uintptr_t)request, sizeof(*request) };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

        if (request->with_fd) {
                struct cmsghdr *extra;

                message.msg_control = room;
                message.msg_controllen = sizeof(room);
                extra = CMSG_FIRSTHDR(&message);
                extra->cmsg_level = SOL_SOCKET;
                extra->cmsg_type = SCM_RIGHTS;
                extra->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(extra), &fd, sizeof(int));
        }
        if (sendmsg(to, &message, MSG_NOSIGNAL) != (ssize_t)sizeof(*request))
                fail("talking to the importer", CUDA_ERROR_OPERATING_SYSTEM);
}

static bool receive_request(int from, struct request *request, int *ret_fd)
{
        char room[CMSG_SPACE(sizeof(int))];
        struct iovec part = { request, sizeof(*request) };
        struct msghdr message = {
                .msg_iov = &part,
                .msg_iovlen = 1,
                .msg_control = room,
                .msg_controllen = sizeof(room),
        };
        struct cmsghdr *extra;

        *ret_fd = -1;
        if (recvmsg(from, &message, MSG_WAITALL) != (ssize_t)sizeof(*request))
                return false;
        extra = CMSG_FIRSTHDR(&message);
        if (extra && extra->cmsg_type == SCM_RIGHTS)
                memcpy(ret_fd, CMSG_DATA(extra), sizeof(int));
        return true;
}

static CUresult import_pool(int fd, CUmemoryPool *ret)
{
        CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
        CUmemAccess_flags flags = 0;

        TRY(cuMemPoolImportFromShareableHandle(ret, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                               0));
        TRY(cuMemPoolGetAccess(&flags, *ret, &here));
        if (flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
                CUmemAccessDesc access = { here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

                TRY(cuMemPoolSetAccess(*ret, &access, 1));
        }
        return CUDA_SUCCESS;
}

/* The child: keeps what it imported until told to close it all. */
static _Noreturn void importer(int from)
{
        static CUdeviceptr held[65536];
        size_t n = 0;
        bool is_pool = false;
        CUmemoryPool pool = NULL;
        struct request request;
        int fd;

        context_start();
        while (receive_request(from, &request, &fd)) {
                struct reply reply = { CUDA_SUCCESS, 0 };
                CUdeviceptr at = 0;

                switch (request.ask) {
                case ASK_POOL:
                        reply.result = import_pool(fd, &pool);
                        is_pool = true;
                        close(fd);
                        break;
                case ASK_IPC:
                case ASK_POINTER:
                        reply.result = request.ask == ASK_IPC ? cuIpcOpenMemHandle(&at, request.ipc,
                                                                                   CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) :
                                                                cuMemPoolImportPointer(&at, pool, &request.pointer);
                        if (reply.result != CUDA_SUCCESS)
                                break;
                        held[n++] = at;
                        reply.result = count_wrong(at, request.bytes, request.seed, &reply.wrong);
                        break;
                case ASK_CLOSE:
                        while (n && reply.result == CUDA_SUCCESS) {
                                n--;
                                reply.result = is_pool ? cuMemFreeAsync(held[n], stream) : cuIpcCloseMemHandle(held[n]);
                        }
                        if (reply.result == CUDA_SUCCESS)
                                reply.result = cuStreamSynchronize(stream);
                        break;
                case ASK_END:
                        if (pool)
                                MUST(cuMemPoolDestroy(pool));
                        exit(0);
                }
                if (send(from, &reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply))
                        break;
        }
        exit(3);
}

/* Before cuInit: a CUDA process must not be forked. */
static void importer_start(void)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                fail("socketpair", CUDA_ERROR_OPERATING_SYSTEM);
        fflush(NULL);
        child = fork();
        if (child < 0)
                fail("fork", CUDA_ERROR_OPERATING_SYSTEM);
        if (child == 0) {
                close(pair[0]);
                importer(pair[1]);
        }
        close(pair[1]);
        child_socket = pair[0];
}

static CUresult ask(const struct request *request, int fd)
{
        struct reply reply = { CUDA_ERROR_UNKNOWN, 0 };

        send_request(child_socket, request, fd);
        if (recv(child_socket, &reply, sizeof(reply), 0) != (ssize_t)sizeof(reply))
                fail("the importer is gone", CUDA_ERROR_OPERATING_SYSTEM);
        if (reply.wrong) {
                printf("wrong=%u at=importer\n", reply.wrong);
                exit(3);
        }
        return reply.result;
}

static CUresult importer_close(void)
{
        return ask(&(struct request){ .ask = ASK_CLOSE }, -1);
}

static CUresult ipc_grow(struct object *o, size_t bytes)
{
        struct request request = { .ask = ASK_IPC, .bytes = bytes, .seed = 11 };
        CUresult r;

        TRY(cuMemAlloc(&o->at, bytes));
        r = fill(o->at, bytes, request.seed);
        if (r == CUDA_SUCCESS)
                r = cuIpcGetMemHandle(&request.ipc, o->at);
        if (r == CUDA_SUCCESS)
                r = ask(&request, -1);
        if (r != CUDA_SUCCESS)
                (void)cuMemFree(o->at);
        return r;
}

/* The pool that is exported is made once, and the child imports it once. */
static CUresult export_grow(struct object *o, size_t bytes)
{
        struct request request = { .ask = ASK_POINTER, .bytes = bytes, .seed = 13 };
        CUresult r;

        if (!export_pool) {
                CUmemPoolProps properties = {
                        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                        .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
                };
                int fd = -1;

                TRY(cuMemPoolCreate(&export_pool, &properties));
                TRY(cuMemPoolExportToShareableHandle(&fd, export_pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
                r = ask(&(struct request){ .ask = ASK_POOL, .with_fd = 1 }, fd);
                close(fd);
                if (r != CUDA_SUCCESS)
                        return r;
        }
        TRY(cuMemAllocFromPoolAsync(&o->at, bytes, export_pool, stream));
        r = fill(o->at, bytes, request.seed);
        if (r == CUDA_SUCCESS)
                r = cuMemPoolExportPointer(&request.pointer, o->at);
        if (r == CUDA_SUCCESS)
                r = ask(&request, -1);
        if (r != CUDA_SUCCESS) {
                (void)cuMemFreeAsync(o->at, stream);
                (void)cuStreamSynchronize(stream);
        }
        return r;
}

static CUresult export_done(void)
{
        TRY(cuStreamSynchronize(stream));
        return cuMemPoolTrimTo(export_pool, 0);
}

/*
 *        name             stops at  grow           drop           done         shared
 */
static const struct family families[] = {
        { "alloc", 0, alloc_grow, alloc_drop, NULL, false },
        { "pitch", 0, pitch_grow, alloc_drop, NULL, false },
        { "managed", 0, managed_grow, alloc_drop, NULL, false },
        { "async", 0, async_grow, async_drop, async_done, false },
        { "vmm", 0, vmm_grow, vmm_drop, NULL, false },
        { "array", 0, array_grow, array_drop, NULL, false },
        { "array3d", 0, array3d_grow, array_drop, NULL, false },
        { "mipmap", 0, mipmap_grow, mipmap_drop, NULL, false },
        { "graph", 0, graph_grow, graph_drop, graph_done, false },
        { "host", 1024, host_grow, host_drop, NULL, false },
        { "register", 1024, register_grow, register_drop, NULL, false },
        { "ipc", 0, ipc_grow, alloc_drop, NULL, true },
        { "mempool-export", 0, export_grow, async_drop, export_done, true },
};

/* ---- the same for each ----------------------------------------------------------------------- */

static struct object objects[65536];

/* Copies between an array and linear memory; `to_array` says which way. */
static void copy_array(const struct object *o, CUdeviceptr linear, bool to_array)
{
        CUDA_MEMCPY3D copy = { .WidthInBytes = o->width * 4, .Height = o->height, .Depth = o->depth };

        if (to_array) {
                copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
                copy.srcDevice = linear;
                copy.srcPitch = o->width * 4;
                copy.srcHeight = o->height;
                copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
                copy.dstArray = o->array;
        } else {
                copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
                copy.srcArray = o->array;
                copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
                copy.dstDevice = linear;
                copy.dstPitch = o->width * 4;
                copy.dstHeight = o->height;
        }
        MUST(cuMemcpy3D(&copy));
        MUST(cuStreamSynchronize(NULL)); /* a copy within the device does not wait, and ours is another stream */
}

/* Writes all objects first and checks them all then: two that overlap are found out. */
static void prove(size_t n)
{
        CUdeviceptr linear = 0;
        uint32_t wrong = 0;

        if (n && !objects[0].at)
                MUST(cuMemAlloc(&linear, objects[0].bytes));
        for (int is_check = 0; is_check < 2; is_check++) {
                for (size_t i = 0; i < n; i++) {
                        struct object *o = &objects[i];
                        CUdeviceptr at = o->at ? o->at : linear;
                        uint32_t seed = (uint32_t)i * 2654435761u + 1, found = 0;

                        if (!is_check) {
                                MUST(fill(at, o->bytes, seed));
                                if (!o->at)
                                        copy_array(o, linear, true);
                                continue;
                        }
                        if (!o->at) {
                                MUST(cuMemsetD8(linear, 0, o->bytes));
                                copy_array(o, linear, false);
                        }
                        MUST(count_wrong(at, o->bytes, seed, &found));
                        wrong += found;
                }
        }
        if (linear)
                MUST(cuMemFree(linear));
        if (wrong) {
                printf("after=wrong wrong=%u\n", wrong);
                exit(3);
        }
}

static size_t grow(const struct family *family, size_t step, size_t most, CUresult *ret_last)
{
        size_t n = 0;

        *ret_last = CUDA_SUCCESS;
        while (n < most) {
                struct object o = { .bytes = step };

                *ret_last = family->grow(&o, step);
                if (*ret_last != CUDA_SUCCESS)
                        break;
                objects[n++] = o;
        }
        return n;
}

static void drop(const struct family *family, size_t n)
{
        if (family->shared)
                MUST(importer_close());
        while (n--)
                MUST(family->drop(&objects[n]));
        if (family->done)
                MUST(family->done());
        MUST(cuCtxSynchronize());
}

static int importer_end(void)
{
        int status = 0;

        send_request(child_socket, &(struct request){ .ask = ASK_END }, -1);
        if (waitpid(child, &status, 0) == child && status == 0)
                return 0;
        printf("after=importer status=%x\n", (unsigned int)status);
        return -1;
}

/* A bound was met as one should be. Of a managed range that cannot be mapped the driver's library
 * says that it is not permitted, or not supported; it has no other words. */
static bool is_refusal(const struct family *family, CUresult last)
{
        if (last == CUDA_SUCCESS || last == CUDA_ERROR_OUT_OF_MEMORY)
                return true;
        return strcmp(family->name, "managed") == 0 &&
               (last == CUDA_ERROR_NOT_PERMITTED || last == CUDA_ERROR_NOT_SUPPORTED);
}

static int run(const struct family *family, uint64_t step_mib, uint64_t most_mib)
{
        const size_t step = step_mib * MIB;
        size_t n, most, free_bytes = 0, total = 0;
        CUresult last;

        if (family->shared)
                importer_start();
        context_start();
        MUST(cuMemGetInfo(&free_bytes, &total));

        /* Managed memory has no bound of its own: a little over the device shows what happens. */
        if (!most_mib && strcmp(family->name, "managed") == 0)
                most_mib = total / MIB + total / MIB / 8;
        else if (!most_mib)
                most_mib = family->most_mib;
        most = most_mib ? most_mib / step_mib : sizeof(objects) / sizeof(*objects);
        if (most > sizeof(objects) / sizeof(*objects))
                most = sizeof(objects) / sizeof(*objects);

        mark("grow");
        n = grow(family, step, most, &last);
        MUST(cuMemGetInfo(&free_bytes, &total));
        printf("family=%s got_mib=%llu n=%zu last=%s total_mib=%llu free_mib=%llu\n", family->name, n * step_mib + 0ull,
               n, name_of(last), total / MIB, free_bytes / MIB);
        fflush(stdout);
        if (!is_refusal(family, last))
                return 3;

        mark("free");
        drop(family, n);
        /* What was exported is held by its descriptor, in both processes, until the pools end; then
         * it is taken again by plain means. */
        if (export_pool) {
                MUST(cuMemPoolDestroy(export_pool));
                export_pool = NULL;
                if (importer_end() < 0)
                        return 3;
                family = &families[0];
        }
        mark("again");
        n = grow(family, step, (n + 1) / 2, &last);
        if (last != CUDA_SUCCESS) {
                printf("after=%s n=%zu\n", name_of(last), n);
                return 3;
        }
        mark("prove");
        prove(n);
        mark("free again");
        drop(family, n);
        mark("end");
        if (family->shared && importer_end() < 0)
                return 3;
        MUST(cuMemFree(bad_counter));
        MUST(cuDevicePrimaryCtxRelease(device));
        printf("after=ok got_mib=%llu n=%zu\n", n * step_mib + 0ull, n);
        return 0;
}

/* ---- without a family ------------------------------------------------------------------------ */

static int run_start(void)
{
        uint32_t wrong = 0;

        context_start();
        mark("launch");
        MUST(fill(bad_counter + 1024, 1024, 3));
        MUST(count_wrong(bad_counter + 1024, 1024, 3, &wrong));
        mark("end");
        MUST(cuMemFree(bad_counter));
        MUST(cuDevicePrimaryCtxRelease(device));
        printf("start=%s\n", wrong ? "wrong" : "ok");
        return wrong ? 3 : 0;
}

/* Leaves its memory, context and descriptors to the kernel. */
static int run_exit(void)
{
        CUdeviceptr at;

        context_start();
        MUST(cuMemAlloc(&at, 64 * MIB));
        mark("exit");
        printf("exit=ok\n");
        fflush(stdout);
        _exit(0);
}

static int run_meminfo(void)
{
        size_t free_bytes, total, device_total;

        context_start();
        mark("meminfo");
        MUST(cuMemGetInfo(&free_bytes, &total));
        MUST(cuDeviceTotalMem(&device_total, device));
        printf("total_mib=%llu free_mib=%llu device_total_mib=%llu\n", total / MIB, free_bytes / MIB,
               device_total / MIB);
        return 0;
}

int main(int argc, char **argv)
{
        uint64_t step = argc > 2 ? strtoull(argv[2], NULL, 0) : 64;
        uint64_t most = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (argc > 1 && strcmp(argv[1], "start") == 0)
                return run_start();
        if (argc > 1 && strcmp(argv[1], "exit") == 0)
                return run_exit();
        if (argc > 1 && strcmp(argv[1], "meminfo") == 0)
                return run_meminfo();
        for (size_t i = 0; argc > 1 && step && i < sizeof(families) / sizeof(*families); i++)
                if (strcmp(argv[1], families[i].name) == 0)
                        return run(&families[i], step, most);
        fprintf(stderr, "usage: families FAMILY [STEP-MiB] [MAX-MiB], FAMILY one of: start exit meminfo");
        for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
                fprintf(stderr, " %s", families[i].name);
        fprintf(stderr, "\n");
        return 2;
}
