/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers - memory that two devices of one machine share, every way at once.
 *
 *      peers MODE [STEP-MiB] [PIECES]
 *
 * A piece lies on one device, is written there by a kernel, and is checked by a kernel of the other device and
 * through a copy to it. Of the modes with a second process the importer uses the other device, and of every
 * second piece the exporter's side is given back first, of the others the importer's.
 *
 *      peers=vmm-fd step_mib=1024 pieces=2 result=ok
 *
 * Exit status: 0 it behaved; 3 an unexpected CUDA error or wrong contents, which is printed; 4 the machine
 * lacks it (no peers, no shareable handles of this kind); 2 usage. Driver API only. Never multicast.
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

enum {
        DEVICES = 2,
        PIECES_MAX = 1024,
};

struct device {
        CUdevice number;
        CUcontext context;
        CUstream stream;
        CUfunction fill, check;
        CUdeviceptr bad;
};

struct piece {
        CUdeviceptr at;
        size_t bytes;
        CUmemGenericAllocationHandle handle;
        int fd; /* exported, or -1 */
};

static struct device devices[DEVICES];
static const char *mode = "?";
static CUmemAllocationHandleType shareable = CU_MEM_HANDLE_TYPE_NONE;

/* ---- small things ---------------------------------------------------------------------------- */

static const char *name_of(CUresult r)
{
        const char *name = NULL;

        return cuGetErrorName(r, &name) == CUDA_SUCCESS && name ? name : "CUDA_ERROR_?";
}

static _Noreturn void fail(const char *what, CUresult r)
{
        printf("peers=%s result=%s at=\"%.*s\"\n", mode, name_of(r), (int)strcspn(what, "("), what);
        exit(3);
}

#define MUST(call)                                                                                                     \
        do {                                                                                                           \
                CUresult must_ = (call);                                                                               \
                if (must_ != CUDA_SUCCESS)                                                                             \
                        fail(#call, must_);                                                                            \
        } while (0)

/* What a machine may lack. */
#define OFFERED(call)                                                                                                  \
        do {                                                                                                           \
                CUresult offered_ = (call);                                                                            \
                if (offered_ != CUDA_SUCCESS) {                                                                        \
                        printf("peers=%s lacks=%s at=\"%.*s\"\n", mode, name_of(offered_), (int)strcspn(#call, "("),   \
                               #call);                                                                                 \
                        exit(4);                                                                                       \
                }                                                                                                      \
        } while (0)

/* A phase mark for the recorder (tools/record.c), where it is loaded. */
static void mark(const char *text)
{
        void (*record)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "sublet_record_mark");

        if (record)
                record(text);
}

static void device_start(struct device *device, int number)
{
        CUmodule module;

        MUST(cuDeviceGet(&device->number, number));
        MUST(cuDevicePrimaryCtxRetain(&device->context, device->number));
        MUST(cuCtxSetCurrent(device->context));
        MUST(cuModuleLoadData(&module, words_ptx));
        MUST(cuModuleGetFunction(&device->fill, module, "sublet_fill"));
        MUST(cuModuleGetFunction(&device->check, module, "sublet_check"));
        MUST(cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&device->bad, 4096));
}

static void devices_start(void)
{
        int n = 0, can = 0;

        mark("init");
        MUST(cuInit(0));
        MUST(cuDeviceGetCount(&n));
        if (n >= DEVICES)
                MUST(cuDeviceCanAccessPeer(&can, 0, 1));
        if (!can) {
                printf("peers=%s lacks=peers devices=%d\n", mode, n);
                exit(4);
        }
        for (int i = 0; i < DEVICES; i++) {
                mark(i ? "context 1" : "context 0");
                device_start(&devices[i], i);
        }
        mark("peers");
        for (int i = 0; i < DEVICES; i++) {
                MUST(cuCtxSetCurrent(devices[i].context));
                MUST(cuCtxEnablePeerAccess(devices[!i].context, 0));
        }
}

static void devices_stop(void)
{
        mark("end");
        for (int i = 0; i < DEVICES; i++) {
                MUST(cuCtxSetCurrent(devices[i].context));
                MUST(cuMemFree(devices[i].bad));
        }
        for (int i = 0; i < DEVICES; i++)
                MUST(cuDevicePrimaryCtxRelease(devices[i].number));
}

/* ---- proof ------------------------------------------------------------------------------------ */

static void fill(const struct device *device, const struct piece *piece, uint32_t seed)
{
        CUdeviceptr at = piece->at;
        uint64_t n = piece->bytes / 4;
        void *arguments[] = { &at, &n, &seed };

        MUST(cuCtxSetCurrent(device->context));
        MUST(cuLaunchKernel(device->fill, 264, 1, 1, 256, 1, 1, 0, device->stream, arguments, NULL));
        MUST(cuStreamSynchronize(device->stream));
}

/* By a kernel for all of it, and through a copy for both ends: a check that did not run is no check. */
static void check(const struct device *device, const struct piece *piece, uint32_t seed)
{
        CUdeviceptr at = piece->at;
        uint64_t n = piece->bytes / 4;
        uint32_t wrong = 0, ends[2] = { 0 };
        CUdeviceptr bad = device->bad;
        void *arguments[] = { &at, &n, &seed, &bad };

        MUST(cuCtxSetCurrent(device->context));
        MUST(cuMemsetD32Async(bad, 0, 1, device->stream));
        MUST(cuLaunchKernel(device->check, 264, 1, 1, 256, 1, 1, 0, device->stream, arguments, NULL));
        MUST(cuMemcpyDtoHAsync(&wrong, bad, 4, device->stream));
        MUST(cuMemcpyDtoHAsync(&ends[0], at, 4, device->stream));
        MUST(cuMemcpyDtoHAsync(&ends[1], at + (n - 1) * 4, 4, device->stream));
        MUST(cuStreamSynchronize(device->stream));
        if (wrong + (ends[0] != seed) + (ends[1] != seed + (uint32_t)(n - 1))) {
                printf("peers=%s result=wrong words=%u\n", mode, wrong);
                exit(3);
        }
}

/* A copy from device to device, checked where it arrived. */
static void copy(const struct device *from, const struct device *to, const struct piece *piece, uint32_t seed)
{
        struct piece there = { .bytes = piece->bytes };

        MUST(cuCtxSetCurrent(to->context));
        MUST(cuMemAlloc(&there.at, there.bytes));
        MUST(cuMemcpyPeerAsync(there.at, to->context, piece->at, from->context, piece->bytes, to->stream));
        MUST(cuStreamSynchronize(to->stream));
        check(to, &there, seed);
        MUST(cuMemFree(there.at));
}

/* ---- the modes --------------------------------------------------------------------------------- */

static CUmemAccessDesc access_of(const struct device *device)
{
        return (CUmemAccessDesc){ { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->number },
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
}

static void map_on_both(struct piece *piece)
{
        CUmemAccessDesc access[DEVICES] = { access_of(&devices[0]), access_of(&devices[1]) };

        MUST(cuMemAddressReserve(&piece->at, piece->bytes, 0, 0, 0));
        MUST(cuMemMap(piece->at, piece->bytes, 0, piece->handle, 0));
        MUST(cuMemSetAccess(piece->at, piece->bytes, access, DEVICES));
}

static void unmap(struct piece *piece)
{
        MUST(cuMemUnmap(piece->at, piece->bytes));
        MUST(cuMemAddressFree(piece->at, piece->bytes));
}

static void plain_take(struct device *device, struct piece *piece)
{
        (void)device;
        MUST(cuMemAlloc(&piece->at, piece->bytes));
}

static void plain_drop(struct device *device, struct piece *piece)
{
        (void)device;
        MUST(cuMemFree(piece->at));
}

static void managed_take(struct device *device, struct piece *piece)
{
        (void)device;
        MUST(cuMemAllocManaged(&piece->at, piece->bytes, CU_MEM_ATTACH_GLOBAL));
}

static void async_take(struct device *device, struct piece *piece)
{
        CUmemAccessDesc other = access_of(device == &devices[0] ? &devices[1] : &devices[0]);
        CUmemoryPool pool;

        MUST(cuDeviceGetDefaultMemPool(&pool, device->number));
        MUST(cuMemPoolSetAccess(pool, &other, 1));
        MUST(cuMemAllocAsync(&piece->at, piece->bytes, device->stream));
        MUST(cuStreamSynchronize(device->stream));
}

static void async_drop(struct device *device, struct piece *piece)
{
        CUmemoryPool pool;

        MUST(cuMemFreeAsync(piece->at, device->stream));
        MUST(cuStreamSynchronize(device->stream));
        MUST(cuDeviceGetDefaultMemPool(&pool, device->number));
        MUST(cuMemPoolTrimTo(pool, 0));
}

/* The handle goes at once: the mapping holds the memory. */
static void vmm_take(struct device *device, struct piece *piece)
{
        CUmemAllocationProp property = {
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = shareable,
                .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->number },
        };
        size_t granule = 0;

        OFFERED(cuMemGetAllocationGranularity(&granule, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        piece->bytes = (piece->bytes + granule - 1) / granule * granule;
        OFFERED(cuMemCreate(&piece->handle, piece->bytes, &property, 0));
        map_on_both(piece);
        if (shareable == CU_MEM_HANDLE_TYPE_NONE)
                MUST(cuMemRelease(piece->handle));
}

static void vmm_drop(struct device *device, struct piece *piece)
{
        (void)device;
        unmap(piece);
        if (shareable != CU_MEM_HANDLE_TYPE_NONE)
                MUST(cuMemRelease(piece->handle));
}

struct kind {
        const char *name;
        void (*take)(struct device *device, struct piece *piece);
        void (*drop)(struct device *device, struct piece *piece);
        CUmemAllocationHandleType shareable;
        bool is_ipc; /* cuIpc, not a shareable handle */
};

static const struct kind kinds[] = {
        { "plain", plain_take, plain_drop, CU_MEM_HANDLE_TYPE_NONE, false },
        { "async", async_take, async_drop, CU_MEM_HANDLE_TYPE_NONE, false },
        { "managed", managed_take, plain_drop, CU_MEM_HANDLE_TYPE_NONE, false },
        { "vmm", vmm_take, vmm_drop, CU_MEM_HANDLE_TYPE_NONE, false },
        { "vmm-fd", vmm_take, vmm_drop, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, false },
        { "vmm-fabric", vmm_take, vmm_drop, CU_MEM_HANDLE_TYPE_FABRIC, false },
        { "ipc", plain_take, plain_drop, CU_MEM_HANDLE_TYPE_NONE, true },
};

/* ---- two processes ------------------------------------------------------------------------------ */

/* What goes to the importer; for a descriptor it comes along. The answer is one word, 0. */
struct parcel {
        enum { PARCEL_IMPORT, PARCEL_LEAVE, PARCEL_END } what;
        uint32_t seed;
        size_t bytes;
        CUipcMemHandle ipc;
        CUmemFabricHandle fabric;
};

static int importer_at = -1;
static pid_t importer;

static void parcel_send(const struct parcel *parcel, int fd)
{
        char room[CMSG_SPACE(sizeof(int))] = { 0 };
        struct iovec part = { (void *)(uintptr_t)parcel, sizeof(*parcel) };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

        if (fd >= 0) {
                struct cmsghdr *extra;

                message.msg_control = room;
                message.msg_controllen = sizeof(room);
                extra = CMSG_FIRSTHDR(&message);
                extra->cmsg_level = SOL_SOCKET;
                extra->cmsg_type = SCM_RIGHTS;
                extra->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(extra), &fd, sizeof(int));
        }
        if (sendmsg(importer_at, &message, MSG_NOSIGNAL) != (ssize_t)sizeof(*parcel))
                fail("sendmsg", CUDA_ERROR_OPERATING_SYSTEM);
}

static bool parcel_receive(int from, struct parcel *parcel, int *ret_fd)
{
        char room[CMSG_SPACE(sizeof(int))];
        struct iovec part = { parcel, sizeof(*parcel) };
        struct msghdr message = {
                .msg_iov = &part,
                .msg_iovlen = 1,
                .msg_control = room,
                .msg_controllen = sizeof(room),
        };
        struct cmsghdr *extra;

        *ret_fd = -1;
        if (recvmsg(from, &message, MSG_WAITALL) != (ssize_t)sizeof(*parcel))
                return false;
        extra = CMSG_FIRSTHDR(&message);
        if (extra && extra->cmsg_type == SCM_RIGHTS)
                memcpy(ret_fd, CMSG_DATA(extra), sizeof(int));
        return true;
}

static void import_piece(const struct kind *kind, struct parcel *parcel, int fd, struct piece *piece)
{
        void *shared = kind->shareable == CU_MEM_HANDLE_TYPE_FABRIC ? (void *)&parcel->fabric : (void *)(uintptr_t)fd;

        *piece = (struct piece){ .bytes = parcel->bytes };
        MUST(cuCtxSetCurrent(devices[1].context));
        if (kind->is_ipc) {
                MUST(cuIpcOpenMemHandle(&piece->at, parcel->ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
                return;
        }
        MUST(cuMemImportFromShareableHandle(&piece->handle, shared, kind->shareable));
        if (fd >= 0)
                close(fd);
        map_on_both(piece);
}

static void leave_piece(const struct kind *kind, struct piece *piece)
{
        MUST(cuCtxSetCurrent(devices[1].context));
        if (kind->is_ipc) {
                MUST(cuIpcCloseMemHandle(piece->at));
                return;
        }
        unmap(piece);
        MUST(cuMemRelease(piece->handle));
}

/* The second process: one piece at a time. */
static _Noreturn void import_all(const struct kind *kind, int from)
{
        struct parcel parcel;
        struct piece piece = { 0 };
        int fd, done = 0;

        devices_start();
        while (parcel_receive(from, &parcel, &fd) && parcel.what != PARCEL_END) {
                if (parcel.what == PARCEL_IMPORT) {
                        mark("import");
                        import_piece(kind, &parcel, fd, &piece);
                        check(&devices[1], &piece, parcel.seed);
                } else {
                        mark("leave");
                        check(&devices[1], &piece, parcel.seed);
                        leave_piece(kind, &piece);
                }
                if (send(from, &done, sizeof(done), MSG_NOSIGNAL) != (ssize_t)sizeof(done))
                        break;
        }
        devices_stop();
        exit(0);
}

/* Before cuInit: a CUDA process must not be forked. */
static void importer_start(const struct kind *kind)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                fail("socketpair", CUDA_ERROR_OPERATING_SYSTEM);
        fflush(NULL);
        importer = fork();
        if (importer < 0)
                fail("fork", CUDA_ERROR_OPERATING_SYSTEM);
        if (importer == 0) {
                close(pair[0]);
                import_all(kind, pair[1]);
        }
        close(pair[1]);
        importer_at = pair[0];
}

static void ask_importer(const struct parcel *parcel, int fd)
{
        int done = -1;

        parcel_send(parcel, fd);
        if (recv(importer_at, &done, sizeof(done), 0) != (ssize_t)sizeof(done))
                fail("the importer", CUDA_ERROR_OPERATING_SYSTEM);
}

static void share(const struct kind *kind, struct piece *piece, uint32_t seed, bool ours_first)
{
        struct parcel parcel = { .what = PARCEL_IMPORT, .seed = seed, .bytes = piece->bytes };
        int fd = -1;

        mark("export");
        MUST(cuCtxSetCurrent(devices[0].context));
        if (kind->is_ipc)
                MUST(cuIpcGetMemHandle(&parcel.ipc, piece->at));
        else if (kind->shareable == CU_MEM_HANDLE_TYPE_FABRIC)
                OFFERED(cuMemExportToShareableHandle(&parcel.fabric, piece->handle, kind->shareable, 0));
        else
                MUST(cuMemExportToShareableHandle(&fd, piece->handle, kind->shareable, 0));
        ask_importer(&parcel, fd);
        if (fd >= 0)
                close(fd);
        parcel.what = PARCEL_LEAVE;
        if (!ours_first || kind->is_ipc) /* of cuIpc the importer must leave first */
                ask_importer(&parcel, -1);
        mark("drop");
        kind->drop(&devices[0], piece);
        if (ours_first && !kind->is_ipc)
                ask_importer(&parcel, -1);
}

/* ---- the run ------------------------------------------------------------------------------------ */

static void run_alone(const struct kind *kind, size_t step, size_t n)
{
        static struct piece pieces[DEVICES][PIECES_MAX];

        for (size_t i = 0; i < n; i++)
                for (int c = 0; c < DEVICES; c++) {
                        mark("take");
                        pieces[c][i].bytes = step;
                        MUST(cuCtxSetCurrent(devices[c].context));
                        kind->take(&devices[c], &pieces[c][i]);
                        fill(&devices[c], &pieces[c][i], (uint32_t)(2 * i) + (uint32_t)c + 1);
                }
        mark("prove");
        for (size_t i = 0; i < n; i++)
                for (int c = 0; c < DEVICES; c++) {
                        check(&devices[!c], &pieces[c][i], (uint32_t)(2 * i) + (uint32_t)c + 1);
                        copy(&devices[c], &devices[!c], &pieces[c][i], (uint32_t)(2 * i) + (uint32_t)c + 1);
                }
        mark("drop");
        for (size_t i = 0; i < n; i++)
                for (int c = 0; c < DEVICES; c++) {
                        MUST(cuCtxSetCurrent(devices[c].context));
                        kind->drop(&devices[c], &pieces[c][i]);
                }
}

static void run_shared(const struct kind *kind, size_t step, size_t n)
{
        int status = 0;

        for (size_t i = 0; i < n; i++) {
                struct piece piece = { .bytes = step };

                mark("take");
                MUST(cuCtxSetCurrent(devices[0].context));
                kind->take(&devices[0], &piece);
                fill(&devices[0], &piece, 7 * (uint32_t)i + 5);
                share(kind, &piece, 7 * (uint32_t)i + 5, i % 2 == 1);
        }
        parcel_send(&(struct parcel){ .what = PARCEL_END }, -1);
        if (waitpid(importer, &status, 0) != importer || status != 0)
                fail("the importer's end", CUDA_ERROR_OPERATING_SYSTEM);
}

static int run(const struct kind *kind, size_t step, size_t n)
{
        bool is_shared = kind->is_ipc || kind->shareable != CU_MEM_HANDLE_TYPE_NONE;

        shareable = kind->shareable;
        if (is_shared)
                importer_start(kind);
        devices_start();
        if (is_shared)
                run_shared(kind, step, n);
        else
                run_alone(kind, step, n);
        devices_stop();
        printf("peers=%s step_mib=%llu pieces=%zu result=ok\n", mode, step / MIB + 0ull, n);
        return 0;
}

int main(int argc, char **argv)
{
        size_t step = (argc > 2 ? strtoull(argv[2], NULL, 0) : 64) * MIB;
        size_t n = argc > 3 ? strtoull(argv[3], NULL, 0) : 2;

        setvbuf(stdout, NULL, _IOLBF, 0);
        for (size_t i = 0; argc > 1 && step && n && n <= PIECES_MAX && i < sizeof(kinds) / sizeof(*kinds); i++)
                if (strcmp(argv[1], kinds[i].name) == 0) {
                        mode = argv[1];
                        return run(&kinds[i], step, n);
                }
        fprintf(stderr, "usage: peers MODE [STEP-MiB] [PIECES], MODE one of:");
        for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
                fprintf(stderr, " %s", kinds[i].name);
        fprintf(stderr, "\n");
        return 2;
}
