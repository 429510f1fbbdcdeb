/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        NR_FREE = 0x29,
        NR_CONTROL = 0x2a,
        NR_ALLOC = 0x2b,
        NR_CARD_INFO = 0xc8,
        NR_REGISTER_FD = 0xc9,
        GET_ID_INFO = 0x205, /* gpuId@0 in, deviceInstance@8 out */
        INFOS = 32,
        INFO_SIZE = 72, /* is valid@0, domain@4, bus@8, slot@9, gpuId@16, minor@56 */
        CLASS_CLIENT = 0x41,
        CLASS_DEVICE = 0x80,
        CLASS_SUBDEVICE = 0x2080,
        CLASS_VIRTUAL = 0x50a0,
        NR_MAP_MEMORY = 0x4e,
        NR_MAP_DMA = 0x57,
        UVM_MAP_SPARSE = 74,
        HOLD_MSEC = 60 * 1000,

        UVM_MIGRATE = 51,
        UVM_VALIDATE_RANGE = 72,
        FDS = 1024,
};

/* Only the attack's first process keeps the end that is written to; with it the other end hangs up. */
static int leash[2];

static CUcontext context;
static CUuuid uuid;
uint64_t kit_map_at = 0x600000000000ull;

__attribute__((constructor)) static void leash_make(void)
{
        if (pipe2(leash, O_CLOEXEC) < 0)
                kit_cannot("no pipe");
}

void kit_wait_at_most(int msec)
{
        struct pollfd end = { leash[0], POLLIN, 0 };

        if (leash[1] >= 0)
                (void)close(leash[1]);
        leash[1] = -1;
        (void)poll(&end, 1, msec);
}

_Noreturn void kit_wait_for_end(void)
{
        kit_wait_at_most(-1);
        _exit(0);
}

/* ---- CUDA ---------------------------------------------------------------------------------------- */

static void must(const char *what, CUresult r)
{
        if (r == CUDA_SUCCESS)
                return;
        printf("setup=%s result=%d\n", what, (int)r);
        exit(2);
}

void kit_start(void)
{
        CUdevice device;

        setvbuf(stdout, NULL, _IOLBF, 0);
        must("cuInit", cuInit(0));
        must("cuDeviceGet", cuDeviceGet(&device, 0));
        must("cuDeviceGetUuid", cuDeviceGetUuid(&uuid, device));
        must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
        kit_join();
}

void kit_join(void)
{
        must("cuCtxSetCurrent", cuCtxSetCurrent(context));
}

uint64_t kit_quota_mib(void)
{
        const char *text = getenv("QUOTA_MIB");

        return text ? strtoull(text, NULL, 0) : 1024;
}

void kit_hold(uint64_t mib)
{
        struct pollfd in = { STDIN_FILENO, POLLIN, 0 };

        printf("holding mib=%llu\n", (unsigned long long)mib);
        (void)fflush(stdout);
        (void)poll(&in, 1, HOLD_MSEC);
}

_Noreturn void kit_cannot(const char *why)
{
        printf("cannot=%s\n", why);
        exit(3);
}

uint64_t kit_take_device(uint64_t piece_mib, uint64_t most_mib)
{
        uint64_t got = 0;
        CUdeviceptr at;

        while (got + piece_mib <= most_mib && cuMemAlloc(&at, piece_mib * MIB) == CUDA_SUCCESS)
                got += piece_mib;
        return got;
}

int kit_uvm(void)
{
        for (int fd = 3; fd < FDS; fd++) {
                unsigned char block[24] = { 0 };

                kit_put64(block, 8, 4096);
                kit_put32(block, 16, 0xffffffffu);
                if (ioctl(fd, UVM_VALIDATE_RANGE, block) == 0 && kit_get32(block, 16) != 0xffffffffu)
                        return fd;
        }
        kit_cannot("no descriptor of UVM");
}

/* Onto the device: a range that was never touched holds nothing there. Filling it would do the same, and take longer
 * wherever the device is simulated. */
void kit_migrate(int uvm, uint64_t base, uint64_t length)
{
        unsigned char block[80] = { 0 };

        kit_put64(block, 0, base);
        kit_put64(block, 8, length);
        memcpy(block + 16, &uuid, 16);
        kit_put32(block, 52, 0xffffffffu); /* no NUMA node of the host */
        (void)ioctl(uvm, UVM_MIGRATE, block);
}

uint64_t kit_take_managed(uint64_t piece_mib, uint64_t most_mib)
{
        int uvm = kit_uvm();
        uint64_t got = 0;
        CUdeviceptr at;

        while (got + piece_mib <= most_mib &&
               cuMemAllocManaged(&at, piece_mib * MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS) {
                kit_migrate(uvm, at, piece_mib * MIB);
                got += piece_mib;
        }
        return got;
}

int kit_export(uint64_t mib)
{
        const CUmemAllocationProp property = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                               .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
        CUmemGenericAllocationHandle handle;
        int fd = -1;

        if (cuMemCreate(&handle, mib * MIB, &property, 0) != CUDA_SUCCESS)
                return -1;
        if (cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS)
                fd = -1;
        (void)cuMemRelease(handle);
        return fd;
}

uint64_t kit_hide_exports(bool (*hide)(int fd))
{
        const uint64_t piece = 256, most = 4 * kit_quota_mib();
        uint64_t got = 0;
        int refused = 0;

        while (got < most && refused < 3) {
                int fd = kit_export(piece);

                if (fd < 0) {
                        refused++;
                        kit_let_it_settle();
                        continue;
                }
                if (!hide(fd))
                        kit_cannot("nowhere to hide a descriptor");
                (void)close(fd);
                got += piece;
        }
        return got;
}

uint64_t kit_map_managed(int uvm, uint64_t piece_mib, uint64_t most_mib)
{
        uint64_t got = 0, length = piece_mib * MIB;

        while (got + piece_mib <= most_mib) {
                uint64_t base = kit_map_at;

                if (mmap((void *)base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, uvm,
                         (off_t)base) == MAP_FAILED)
                        break;
                kit_migrate(uvm, base, length);
                kit_map_at += length;
                got += piece_mib;
        }
        return got;
}

void kit_let_it_settle(void)
{
        const char *text = getenv("SETTLE_MSEC");

        (void)usleep(text ? (useconds_t)strtoul(text, NULL, 0) * 1000 : 1500 * 1000);
}

/* ---- the driver ------------------------------------------------------------------------------------- */

void kit_put32(void *at, size_t offset, uint32_t value)
{
        memcpy((char *)at + offset, &value, sizeof(value));
}

void kit_put64(void *at, size_t offset, uint64_t value)
{
        memcpy((char *)at + offset, &value, sizeof(value));
}

uint32_t kit_get32(const void *at, size_t offset)
{
        uint32_t value;

        memcpy(&value, (const char *)at + offset, sizeof(value));
        return value;
}

bool kit_ok(struct kit_outcome outcome)
{
        return outcome.rc == 0 && outcome.status == 0;
}

int kit_plain(int fd, unsigned long request, void *block)
{
        return ioctl(fd, request, block);
}

int (*kit_ioctl)(int fd, unsigned long request, void *block) = kit_plain;

static struct kit_outcome call(int fd, unsigned int nr, void *block, size_t size, size_t status_at)
{
        struct kit_outcome outcome = { .status = -1 };

        kit_put32(block, status_at, 0xffffffffu);
        errno = 0;
        outcome.rc = kit_ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size), block);
        outcome.error = outcome.rc < 0 ? errno : 0;
        if (outcome.rc == 0)
                outcome.status = kit_get32(block, status_at);
        return outcome;
}

static struct kit_outcome alloc(int ctl, uint32_t client, uint32_t parent, uint32_t *object, uint32_t class_number,
                                void *params, uint32_t params_size)
{
        unsigned char block[48] = { 0 };
        struct kit_outcome outcome;

        kit_put32(block, 0, client);
        kit_put32(block, 4, parent);
        kit_put32(block, 8, *object);
        kit_put32(block, 12, class_number);
        kit_put64(block, 16, (uintptr_t)params);
        kit_put32(block, 32, params_size);
        outcome = call(ctl, NR_ALLOC, block, sizeof(block), 40);
        *object = kit_get32(block, 8);
        return outcome;
}

struct kit_outcome kit_rm_alloc(const struct kit_rm *rm, uint32_t parent, uint32_t object, uint32_t class_number,
                                void *params, uint32_t params_size)
{
        return alloc(rm->ctl, rm->client, parent, &object, class_number, params, params_size);
}

struct kit_outcome kit_rm_control(const struct kit_rm *rm, uint32_t object, uint32_t command, void *params,
                                  uint32_t params_size)
{
        unsigned char block[32] = { 0 };

        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, object);
        kit_put32(block, 8, command);
        kit_put64(block, 16, (uintptr_t)params);
        kit_put32(block, 24, params_size);
        return call(rm->ctl, NR_CONTROL, block, sizeof(block), 28);
}

struct kit_outcome kit_rm_free(const struct kit_rm *rm, uint32_t parent, uint32_t object)
{
        unsigned char block[16] = { 0 };

        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, parent);
        kit_put32(block, 8, object);
        return call(rm->ctl, NR_FREE, block, sizeof(block), 12);
}

void kit_rm_memory_params(const struct kit_rm *rm, unsigned char params[128], uint64_t bytes)
{
        memset(params, 0, 128);
        kit_put32(params, 0, rm->client);
        kit_put32(params, 8, 0x1c101);     /* flags */
        kit_put32(params, 24, 0x11800000); /* attr */
        kit_put32(params, 28, 0x100005);   /* attr2 */
        kit_put32(params, 32, 6);          /* generic memory */
        kit_put64(params, 64, bytes);
        kit_put64(params, 72, 2 * MIB); /* alignment */
        kit_put64(params, 88, bytes - 1);
}

struct kit_outcome kit_rm_memory(const struct kit_rm *rm, uint32_t object, uint64_t bytes)
{
        unsigned char params[128];

        kit_rm_memory_params(rm, params, bytes);
        return kit_rm_alloc(rm, KIT_DEVICE, object, KIT_CLASS_MEMORY, params, sizeof(params));
}

struct kit_outcome kit_rm_reserve(const struct kit_rm *rm, uint32_t object, uint32_t space, uint64_t bytes,
                                  uint32_t flags, uint32_t attr)
{
        unsigned char params[128] = { 0 };

        kit_put32(params, 0, rm->client);
        kit_put32(params, 8, flags);
        kit_put32(params, 24, attr);
        kit_put64(params, 64, bytes);
        kit_put32(params, 108, space);
        return kit_rm_alloc(rm, KIT_DEVICE, object, CLASS_VIRTUAL, params, sizeof(params));
}

struct kit_outcome kit_rm_map(const struct kit_rm *rm, uint32_t dma, uint32_t memory, uint64_t length, uint32_t flags,
                              uint64_t *at)
{
        unsigned char block[64] = { 0 };
        struct kit_outcome outcome;

        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, dma);
        kit_put32(block, 12, memory);
        kit_put64(block, 24, length);
        kit_put32(block, 32, flags);
        kit_put64(block, 48, *at);
        outcome = call(rm->ctl, NR_MAP_DMA, block, sizeof(block), 56);
        memcpy(at, block + 48, sizeof(*at));
        return outcome;
}

struct kit_outcome kit_rm_map_host(const struct kit_rm *rm, uint32_t memory, uint64_t length, int fd)
{
        unsigned char block[56] = { 0 };

        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, memory);
        kit_put64(block, 24, length);
        kit_put32(block, 44, 0xc0000); /* as libcuda does */
        kit_put32(block, 48, (uint32_t)fd);
        return call(rm->ctl, NR_MAP_MEMORY, block, sizeof(block), 40);
}

struct kit_outcome kit_uvm_range(int uvm, unsigned long number, uint64_t base, uint64_t length)
{
        unsigned char block[40] = { 0 };
        size_t status_at = number == UVM_MAP_SPARSE ? 32 : 16;
        struct kit_outcome outcome = { .status = -1 };

        kit_put64(block, 0, base);
        kit_put64(block, 8, length);
        if (status_at > 16)
                memcpy(block + 16, &uuid, 16);
        kit_put32(block, status_at, 0xffffffffu);
        outcome.rc = ioctl(uvm, number, block);
        outcome.error = outcome.rc < 0 ? errno : 0;
        if (outcome.rc == 0)
                outcome.status = kit_get32(block, status_at);
        return outcome;
}

uint64_t kit_rm_take(const struct kit_rm *rm, uint32_t first, uint64_t piece_mib, uint64_t most_mib)
{
        uint64_t got = 0;

        while (got + piece_mib <= most_mib && kit_ok(kit_rm_memory(rm, first++, piece_mib * MIB)))
                got += piece_mib;
        return got;
}

uint64_t kit_rm_try(const struct kit_rm *rm, uint32_t first, uint64_t piece_mib, uint64_t most_mib,
                    unsigned int most_failed)
{
        unsigned int n_failed = 0;
        uint64_t got = 0;

        while (got + piece_mib <= most_mib && n_failed < most_failed) {
                bool is_there = kit_ok(kit_rm_memory(rm, first++, piece_mib * MIB));

                n_failed = is_there ? 0 : n_failed + 1;
                got += is_there ? piece_mib : 0;
        }
        return got;
}

static uint64_t place_of(const unsigned char *info)
{
        return (uint64_t)kit_get32(info, 4) << 16 | (uint64_t)info[8] << 8 | info[9];
}

/* The first device by its place on the bus, as nvidia-smi numbers them, whose node is there. The node's number is not
 * the driver's number of the device: that one counts in the order in which devices were first opened, by anybody. */
static bool node_open(struct kit_rm *rm, uint32_t *gpu_id)
{
        unsigned char infos[INFOS * INFO_SIZE] = { 0 };
        uint64_t least = 0;

        if (kit_ioctl(rm->ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_CARD_INFO, sizeof(infos)), infos) < 0)
                return false;
        for (;;) {
                const unsigned char *first = NULL;
                char path[64];

                for (const unsigned char *at = infos; at < infos + sizeof(infos); at += INFO_SIZE)
                        if (*at && place_of(at) >= least && (!first || place_of(at) < place_of(first)))
                                first = at;
                if (!first)
                        return false;
                (void)snprintf(path, sizeof(path), "/dev/nvidia%u", kit_get32(first, 56));
                rm->node = open(path, O_RDWR | O_CLOEXEC);
                *gpu_id = kit_get32(first, 16);
                if (rm->node >= 0)
                        return true;
                least = place_of(first) + 1;
        }
}

/* NULL: all of it is there. Else what could not be had. */
static const char *rm_open(struct kit_rm *rm, int ctl, struct kit_outcome *outcome)
{
        unsigned char params[56] = { 0 }, info[32] = { 0 };
        uint32_t object = 0, gpu_id = 0;

        *outcome = (struct kit_outcome){ .rc = -1 };
        *rm = (struct kit_rm){ ctl, -1, 0 };
        if (rm->ctl < 0 || !node_open(rm, &gpu_id))
                return "nodes";
        *outcome = alloc(rm->ctl, 0, 0, &object, CLASS_CLIENT, params, 4);
        if (!kit_ok(*outcome))
                return "client";
        rm->client = object;
        kit_put32(params, 0, (uint32_t)rm->ctl);
        if (kit_ioctl(rm->node, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_REGISTER_FD, 4), params) < 0)
                return "register_fd";
        kit_put32(info, 0, gpu_id);
        *outcome = kit_rm_control(rm, rm->client, GET_ID_INFO, info, sizeof(info));
        if (!kit_ok(*outcome))
                return "instance";
        memset(params, 0, sizeof(params));
        kit_put32(params, 0, kit_get32(info, 8));
        *outcome = kit_rm_alloc(rm, rm->client, KIT_DEVICE, CLASS_DEVICE, params, 56);
        if (!kit_ok(*outcome))
                return "device";
        memset(params, 0, sizeof(params));
        *outcome = kit_rm_alloc(rm, KIT_DEVICE, KIT_SUBDEVICE, CLASS_SUBDEVICE, params, 4);
        return kit_ok(*outcome) ? NULL : "subdevice";
}

bool kit_rm_try_open(struct kit_rm *rm)
{
        return kit_rm_open_on(rm, open("/dev/nvidiactl", O_RDWR | O_CLOEXEC));
}

bool kit_rm_open_on(struct kit_rm *rm, int ctl)
{
        struct kit_outcome outcome;

        return !rm_open(rm, ctl, &outcome);
}

void kit_rm_open(struct kit_rm *rm)
{
        struct kit_outcome outcome;
        const char *what;

        setvbuf(stdout, NULL, _IOLBF, 0);
        what = rm_open(rm, open("/dev/nvidiactl", O_RDWR | O_CLOEXEC), &outcome);
        if (!what)
                return;
        printf("setup=%s rc=%ld errno=%d status=0x%llx\n", what, outcome.rc, outcome.error ? outcome.error : errno,
               (unsigned long long)outcome.status);
        exit(2);
}
