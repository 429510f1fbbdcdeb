/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "kit_time.h"

#include "../gpu/burn.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
        NR_CONTROL = 0x2a,
        NR_ALLOC = 0x2b,
        CLASS_GROUP = 0xa06c,
        CLASS_CHANNEL = 0x6f, /* the low byte */
        CLASS_DEVICE = 0x80,
        ENGINE_AT = 12, /* of a group's parameters; docs/rm-abi.md 3 */
        USERD_AT = 32,  /* hUserdMemory[0] of a channel's, and userdOffset[0] */
        USERD_OFFSET_AT = 64,
        USERD_PUT = 0x8c,
        USERD_ALL = 2 << 20, /* of all channels of a context */
        NR_MAP_MEMORY = 0x4e,
        MADE = 512,
        DEPTH = 16,
        LONGEST_MSEC = 60 * 1000,
};

#define SCHEDULE_GROUP 0xa06c0101u
#define SET_MODE 0x20801210u
#define SCHEDULE_CHANNEL 0xa06f0103u
#define BIND_GROUP 0xa06c0102u
#define BIND_CHANNEL 0xa06f0104u

struct made {
        int fd;
        uint32_t client, handle, group; /* group 0: it is one */
        uint32_t engine;                /* of a group */
        uint32_t userd, userd_at;       /* of a channel */
};

struct time_tricks time_tricks;

static struct made made[MADE];
static _Atomic int n_made;
static uint32_t device_of_client; /* the latest */
static int (*next)(int, unsigned long, ...);

static __thread struct {
        CUfunction burn;
        CUdeviceptr sink, log;
        CUstream stream;
        CUevent events[DEPTH];
        int blocks;
} work;

int ioctl(int fd, unsigned long request, ...);

/* ---- the tricks -------------------------------------------------------------------------------------- */

static void control(const struct made *object, uint32_t command, uint32_t value, uint32_t size)
{
        struct kit_rm rm = { object->fd, -1, object->client };
        unsigned char params[4];

        kit_put32(params, 0, value);
        (void)kit_rm_control(&rm, object->handle, command, params, size);
}

static void schedule(const struct made *object)
{
        control(object, object->group ? SCHEDULE_CHANNEL : SCHEDULE_GROUP, 1, 3);
}

static void bind(const struct made *object)
{
        control(object, object->group ? BIND_CHANNEL : BIND_GROUP, 1, 4);
}

static void with_channels_of(uint32_t client, uint32_t group, void (*trick)(const struct made *))
{
        for (int i = 0; i < n_made; i++)
                if (made[i].client == client && made[i].group == group)
                        trick(&made[i]);
}

static void *repeat(void *unused)
{
        (void)unused;
        for (;;) {
                for (int i = 0; i < n_made; i++)
                        schedule(&made[i]);
                (void)usleep(100);
        }
        return NULL;
}

static void note(int fd, const void *block, const void *params)
{
        uint32_t class_number = kit_get32(block, 12);
        bool is_group = class_number == CLASS_GROUP;

        if (kit_get32(block, 40) || n_made == MADE)
                return;
        if (class_number == CLASS_DEVICE)
                device_of_client = kit_get32(block, 8);
        if (!is_group && (class_number % 0x100 != CLASS_CHANNEL || class_number <= 0xff))
                return;
        made[n_made] = (struct made){
                fd, kit_get32(block, 0), kit_get32(block, 8), is_group ? 0 : kit_get32(block, 4), 0, 0, 0
        };
        if (params && is_group)
                made[n_made].engine = kit_get32(params, ENGINE_AT);
        else if (params) {
                made[n_made].userd = kit_get32(params, USERD_AT);
                made[n_made].userd_at = kit_get32(params, USERD_OFFSET_AT);
        }
        n_made++;
        if (time_tricks.schedules_old && is_group)
                schedule(&made[n_made - 1]);
        if (time_tricks.schedules_each && !is_group)
                schedule(&(struct made){ fd, kit_get32(block, 0), kit_get32(block, 4), 0, 0, 0, 0 });
}

static void *params_of(const void *block)
{
        return (void *)(uintptr_t)(kit_get32(block, 16) | (uint64_t)kit_get32(block, 20) << 32);
}

static int alloc(int fd, unsigned long request, void *block)
{
        void *params = params_of(block);
        int r;

        if (time_tricks.says && params && kit_get32(block, 12) == CLASS_GROUP && kit_get32(params, ENGINE_AT) == 1)
                kit_put32(params, ENGINE_AT, time_tricks.says);
        r = next(fd, request, block);
        if (r == 0)
                note(fd, block, params);
        return r;
}

static int scheduled(int fd, unsigned long request, void *block)
{
        uint32_t client = kit_get32(block, 0), group = kit_get32(block, 4);
        struct made self = { fd, client, group, 0, 0, 0, 0 };

        if (time_tricks.binds) {
                with_channels_of(client, group, bind);
                bind(&self);
        }
        if (!time_tricks.singly)
                return next(fd, request, block);
        with_channels_of(client, group, schedule);
        kit_put32(block, 28, 0);
        return 0;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
        va_list list;
        void *block;

        va_start(list, request);
        block = va_arg(list, void *);
        va_end(list);
        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
        if ((request >> 8 & 0xff) == 'F' && (request & 0xff) == NR_ALLOC)
                return alloc(fd, request, block);
        if ((request >> 8 & 0xff) == 'F' && (request & 0xff) == NR_CONTROL && kit_get32(block, 8) == SCHEDULE_GROUP &&
            (time_tricks.binds || time_tricks.singly))
                return scheduled(fd, request, block);
        if ((request >> 8 & 0xff) == 'F' && (request & 0xff) == NR_CONTROL && kit_get32(block, 8) == SET_MODE &&
            time_tricks.hides_mode) {
                kit_put32(block, 28, 0);
                return 0;
        }
        return next(fd, request, block);
}

/* ---- work ---------------------------------------------------------------------------------------------- */

#define MUST(call) must((call), #call)

static void must(CUresult r, const char *what)
{
        if (r == CUDA_SUCCESS)
                return;
        printf("setup=%s result=%d\n", what, (int)r);
        exit(2);
}

void time_context(void)
{
        CUmodule module;
        CUdevice device;

        MUST(cuCtxGetDevice(&device));
        MUST(cuDeviceGetAttribute(&work.blocks, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
        MUST(cuModuleLoadData(&module, burn_ptx));
        MUST(cuModuleGetFunction(&work.burn, module, "burn"));
        MUST(cuMemAlloc(&work.sink, 4096));
        MUST(cuMemAlloc(&work.log, BURN_LOG_MAX * sizeof(uint64_t)));
        MUST(cuStreamCreate(&work.stream, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < DEPTH; i++)
                MUST(cuEventCreate(&work.events[i], CU_EVENT_DISABLE_TIMING));
}

void time_start(void)
{
        pthread_t thread;

        kit_start();
        time_context();
        if (time_tricks.repeats)
                (void)pthread_create(&thread, NULL, repeat, NULL);
}

static uint64_t msec_now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

#define ROUNDS 40000 /* of a kernel: 0.77 ms of an H200 */

static void launch(unsigned long n, unsigned int rounds)
{
        unsigned int pieces = 1;
        void *arguments[] = { &work.sink, &rounds, &work.log, &pieces };

        MUST(cuLaunchKernel(work.burn, (unsigned int)work.blocks, 1, 1, 1024, 1, 1, 0, work.stream, arguments, NULL));
        MUST(cuEventRecord(work.events[n % DEPTH], work.stream));
}

static bool is_told_to_end(void)
{
        struct pollfd in = { STDIN_FILENO, POLLIN, 0 };

        return poll(&in, 1, 0) > 0;
}

static unsigned long compute(uint64_t until, bool listens)
{
        unsigned long n = 0, done = 0;

        while (msec_now() < until && !(listens && is_told_to_end())) {
                if (n - done == DEPTH)
                        MUST(cuEventSynchronize(work.events[done++ % DEPTH]));
                launch(n++, ROUNDS * (time_tricks.times ? time_tricks.times : 1));
        }
        MUST(cuStreamSynchronize(work.stream));
        return n;
}

/* Launches and waits. */
static unsigned long step(uint64_t until, unsigned int rounds)
{
        unsigned long n = 0;

        while (msec_now() < until && !is_told_to_end()) {
                launch(n++, rounds);
                MUST(cuStreamSynchronize(work.stream));
        }
        return n;
}

void time_change(void)
{
        uint64_t began = msec_now();
        unsigned long n = step(msec_now() + 1000, ROUNDS / 2);

        printf("computing\n");
        (void)fflush(stdout);
        while (msec_now() < began + LONGEST_MSEC && !is_told_to_end()) {
                n += step(msec_now() + 4000, 400 * ROUNDS);
                n += step(msec_now() + 1000, ROUNDS / 2);
        }
        printf("kernels=%lu msec=%llu\n", n, (unsigned long long)(msec_now() - began));
}

unsigned long time_compute_for(unsigned int msec)
{
        return compute(msec_now() + msec, false);
}

void time_compute(void)
{
        uint64_t began = msec_now();
        unsigned long n;

        printf("computing\n");
        n = compute(began + LONGEST_MSEC, true);
        printf("kernels=%lu msec=%llu\n", n, (unsigned long long)(msec_now() - began));
}

/* ---- rings ----------------------------------------------------------------------------------------------- */

static bool is_compute(const struct made *channel)
{
        for (int i = 0; i < n_made; i++)
                if (!made[i].group && made[i].client == channel->client && made[i].handle == channel->group)
                        return made[i].engine == 1;
        return false;
}

/* A mapping of the memory that a channel's positions are in; NULL. */
static char *userd_map(const struct made *channel)
{
        unsigned char block[56] = { 0 };
        int fd = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
        void *at;

        kit_put32(block, 0, channel->client);
        kit_put32(block, 4, device_of_client);
        kit_put32(block, 8, channel->userd);
        kit_put64(block, 24, USERD_ALL);
        kit_put32(block, 48, (uint32_t)fd);
        if (fd < 0 || next(channel->fd, 3ul << 30 | sizeof(block) << 16 | 'F' << 8 | NR_MAP_MEMORY, block) < 0 ||
            kit_get32(block, 40))
                return NULL;
        at = mmap(NULL, USERD_ALL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return at == MAP_FAILED ? NULL : at;
}

void time_pretend(void)
{
        volatile uint32_t *puts[MADE];
        uint64_t began = msec_now();
        char *page = NULL;
        uint32_t mapped = 0;
        int n = 0;

        for (int i = 0; i < n_made; i++) {
                if (!made[i].group || !made[i].userd || !is_compute(&made[i]))
                        continue;
                if (made[i].userd != mapped)
                        page = userd_map(&made[i]);
                mapped = made[i].userd;
                if (page && made[i].userd_at <= USERD_ALL - USERD_PUT - 4)
                        puts[n++] = (volatile uint32_t *)(void *)(page + made[i].userd_at + USERD_PUT);
        }
        if (!n)
                kit_cannot("no positions of a ring");
        printf("computing\nrings=%d\n", n);
        (void)fflush(stdout);
        for (uint32_t put = 0; msec_now() < began + LONGEST_MSEC && !is_told_to_end(); put++) {
                for (int i = 0; i < n; i++)
                        *puts[i] = 100 + put % 16; /* never what the device has fetched */
                (void)usleep(200);
        }
}
