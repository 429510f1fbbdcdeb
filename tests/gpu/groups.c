/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups - on which engine a channel group runs, whatever it says of itself, and what switching its channels does.
 *
 *      groups engines          what the driver says of each engine: its copy-engine capabilities, which run list
 *      groups ordinary         the groups and channels that libcuda makes, and the run list that each is on
 *      groups says ENGINE      those of engine 1 say ENGINE instead: do they compute, on which run list, and what stops
 *                              them
 *      groups switch           the cost and the effect of switching compute channels, copy channels, all of them,
 *                              beside kernels, copies, both, or nothing
 *      groups work kernels|copies|both SECONDS [toggle]
 *                              so much work in so much time; with toggle all its channels go off and on meanwhile
 *
 * With GROUPS_SAY=ENGINE in the environment groups say so in the other modes as well. tests/gpu/groups.sh builds and
 * runs all of it. The calls of libcuda pass through this program's own ioctl(), which notes groups, channels and the
 * tokens that ring their doorbells (bits 22:16 are the run list, from Ampere on: dev_ctrl.h), and changes the engine
 * type where asked to. Layouts: docs/rm-abi.md, release 580.
 */
#define _GNU_SOURCE
#include "burn.h"
#include "../hostile/kit.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
        NR_CONTROL = 0x2a,
        NR_ALLOC = 0x2b,
        CLASS_GROUP = 0xa06c,
        CLASS_CHANNEL = 0x6f, /* the low byte */
        GROUP_ENGINE_AT = 12,
        CHANNEL_ENGINE_AT = 128,
        CID_AT = 132,
        GET_TOKEN = (int)0xc36f0108,
        GET_ENGINES = 0x20800170,
        GET_RUNLISTS = 0x20800179,
        GET_PARTNERS = 0x20800147,
        GET_CAPS = 0x20802a03,
        DISABLE = 0x2080110b,
        BIND_GROUP = (int)0xa06c0102,
        BIND_CHANNEL = (int)0xa06f0104,
        COMPUTE_CLASS = 0xcbc0,
        ENGINES = 0x54,
        CHANNELS = 64,
        DEPTH = 16,
        SWITCHES = 15,
};

/* ---- what libcuda makes ---------------------------------------------------------------------------- */

struct group {
        int fd;
        uint32_t client, handle, said, engine;
};

struct channel {
        int fd;
        uint32_t client, handle, group, cid, token;
};

static struct group groups[CHANNELS];
static struct channel channels[CHANNELS];
static size_t n_groups, n_channels;
static uint32_t say; /* instead of engine 1; 0: as it is */
static int (*next)(int, unsigned long, ...);

int ioctl(int fd, unsigned long request, ...);

static struct group *group_of(uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < n_groups; i++)
                if (groups[i].client == client && groups[i].handle == handle)
                        return &groups[i];
        return NULL;
}

static uint32_t engine_of(const struct channel *channel)
{
        const struct group *group = group_of(channel->client, channel->group);

        return group ? group->said : 0;
}

static void note_alloc(int fd, const void *block, const void *params, uint32_t said)
{
        uint32_t class_number = kit_get32(block, 12);

        if (kit_get32(block, 40) || !params)
                return;
        if (class_number == CLASS_GROUP && n_groups < CHANNELS)
                groups[n_groups++] = (struct group){ fd, kit_get32(block, 0), kit_get32(block, 8), said,
                                                     kit_get32(params, GROUP_ENGINE_AT) };
        if (class_number % 0x100 == CLASS_CHANNEL && class_number > 0xff && n_channels < CHANNELS)
                channels[n_channels++] = (struct channel){ fd,
                                                           kit_get32(block, 0),
                                                           kit_get32(block, 8),
                                                           kit_get32(block, 4),
                                                           kit_get32(params, CID_AT),
                                                           UINT32_MAX };
}

static void note_token(const void *block)
{
        const void *params = (const void *)(uintptr_t)(kit_get32(block, 16) | (uint64_t)kit_get32(block, 20) << 32);

        for (size_t i = 0; i < n_channels; i++)
                if (channels[i].client == kit_get32(block, 0) && channels[i].handle == kit_get32(block, 4))
                        channels[i].token = kit_get32(params, 0);
}

static int alloc(int fd, unsigned long request, void *block)
{
        void *params = (void *)(uintptr_t)(kit_get32(block, 16) | (uint64_t)kit_get32(block, 20) << 32);
        bool is_group = kit_get32(block, 12) == CLASS_GROUP && params;
        uint32_t said = is_group ? kit_get32(params, GROUP_ENGINE_AT) : 0;
        int r;

        if (is_group && said == 1 && say)
                kit_put32(params, GROUP_ENGINE_AT, say);
        r = next(fd, request, block);
        if (r == 0)
                note_alloc(fd, block, params, said);
        return r;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
        unsigned int nr = request & 0xff;
        va_list list;
        void *block;
        int r;

        va_start(list, request);
        block = va_arg(list, void *);
        va_end(list);
        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
        if ((request >> 8 & 0xff) != 'F')
                return next(fd, request, block);
        if (nr == NR_ALLOC)
                return alloc(fd, request, block);
        r = next(fd, request, block);
        if (nr == NR_CONTROL && r == 0 && kit_get32(block, 8) == (uint32_t)GET_TOKEN && !kit_get32(block, 28))
                note_token(block);
        return r;
}

/* ---- work --------------------------------------------------------------------------------------------- */

#define MUST(call) must((call), #call)

static void must(CUresult r, const char *what)
{
        const char *name = NULL;

        if (r == CUDA_SUCCESS)
                return;
        (void)cuGetErrorName(r, &name);
        printf("failed %s %s\n", what, name ? name : "?");
        exit(1);
}

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A queue of kernels or copies that is kept full; how many pieces are done is asked without waiting. */
struct queue {
        bool is_copy;
        CUstream stream;
        CUevent events[DEPTH];
        unsigned long n, done;
        CUdeviceptr device;
        void *host;
        size_t bytes;
};

static CUfunction burn;
static CUdeviceptr sink, log_memory;
static int blocks;

static void queue_open(struct queue *queue, bool is_copy, size_t bytes)
{
        *queue = (struct queue){ .is_copy = is_copy, .bytes = bytes };
        MUST(cuStreamCreate(&queue->stream, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < DEPTH; i++)
                MUST(cuEventCreate(&queue->events[i], CU_EVENT_DISABLE_TIMING));
        if (!is_copy)
                return;
        MUST(cuMemAllocHost(&queue->host, bytes));
        memset(queue->host, 0x5a, bytes);
        MUST(cuMemAlloc(&queue->device, bytes));
}

static void queue_put(struct queue *queue)
{
        unsigned int rounds = 10000, pieces = 1; /* 0.2 ms */
        void *arguments[] = { &sink, &rounds, &log_memory, &pieces };

        if (queue->is_copy)
                MUST(cuMemcpyHtoDAsync(queue->device, queue->host, queue->bytes, queue->stream));
        else
                MUST(cuLaunchKernel(burn, (unsigned int)blocks, 1, 1, 1024, 1, 1, 0, queue->stream, arguments, NULL));
        MUST(cuEventRecord(queue->events[queue->n++ % DEPTH], queue->stream));
}

static void queue_step(struct queue *queue)
{
        while (queue->done < queue->n && cuEventQuery(queue->events[queue->done % DEPTH]) == CUDA_SUCCESS)
                queue->done++;
        while (queue->n - queue->done < DEPTH)
                queue_put(queue);
}

/* Keeps it full for so long; what was done meanwhile. NULL: only waits. */
static unsigned long queue_run(struct queue *queue, double seconds)
{
        double until = now() + seconds;
        unsigned long before = queue ? queue->done : 0;

        while (now() < until) {
                if (queue)
                        queue_step(queue);
                (void)usleep(50);
        }
        return queue ? queue->done - before : 0;
}

static CUresult begin(void)
{
        CUcontext context;
        CUmodule module;
        CUdevice device;
        CUresult r = cuInit(0);

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (r == CUDA_SUCCESS)
                r = cuDeviceGet(&device, 0);
        if (r == CUDA_SUCCESS)
                r = cuDevicePrimaryCtxRetain(&context, device);
        if (r != CUDA_SUCCESS)
                return r;
        MUST(cuCtxSetCurrent(context));
        MUST(cuDeviceGetAttribute(&blocks, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
        MUST(cuModuleLoadData(&module, burn_ptx));
        MUST(cuModuleGetFunction(&burn, module, "burn"));
        MUST(cuMemAlloc(&sink, 4096));
        MUST(cuMemAlloc(&log_memory, 8u << 20));
        return CUDA_SUCCESS;
}

/* ---- switching ------------------------------------------------------------------------------------------ */

static struct kit_rm rm;

enum which {
        COMPUTE,
        COPY,
        ALL,
        N_WHICH,
};

static const char *const which_names[] = { "compute", "copy", "all" };

/* Microseconds; negative: refused. */
static double switch_channels(enum which which, bool is_disabled, bool only_schedule, int64_t *status)
{
        unsigned char params[536] = { is_disabled, [8] = only_schedule };
        struct kit_outcome outcome;
        uint32_t n = 0;
        double began;

        for (size_t i = 0; i < n_channels; i++) {
                bool is_compute = engine_of(&channels[i]) == 1;

                if (which != ALL && is_compute != (which == COMPUTE))
                        continue;
                kit_put32(params, 24 + 4 * n, channels[i].client);
                kit_put32(params, 280 + 4 * n, channels[i].handle);
                n++;
        }
        kit_put32(params, 4, n);
        began = now();
        outcome = kit_rm_control(&rm, KIT_SUBDEVICE, DISABLE, params, sizeof(params));
        *status = outcome.status;
        return kit_ok(outcome) ? (now() - began) * 1e6 : -1;
}

/* ---- engines ---------------------------------------------------------------------------------------------- */

static uint32_t engine_list(uint32_t *ret)
{
        unsigned char params[4 + 4 * ENGINES] = { 0 };
        struct kit_outcome outcome = kit_rm_control(&rm, KIT_SUBDEVICE, GET_ENGINES, params, sizeof(params));

        printf("engines status=0x%llx n=%u\n", (unsigned long long)outcome.status, kit_get32(params, 0));
        for (uint32_t i = 0; i < kit_get32(params, 0) && i < ENGINES; i++)
                ret[i] = kit_get32(params, 4 + 4 * i);
        return kit_ok(outcome) ? kit_get32(params, 0) : 0;
}

static void say_partners(uint32_t engine, uint32_t runqueue)
{
        unsigned char params[16 + 128] = { 0 };
        struct kit_outcome outcome;

        kit_put32(params, 0, engine);
        kit_put32(params, 4, 0xc86f);
        kit_put32(params, 8, runqueue);
        outcome = kit_rm_control(&rm, KIT_SUBDEVICE, GET_PARTNERS, params, sizeof(params));
        printf(" partners%u=0x%llx:", runqueue, (unsigned long long)outcome.status);
        for (uint32_t i = 0; i < kit_get32(params, 12) && i < 32 && kit_ok(outcome); i++)
                printf("%s%u", i ? "," : "", kit_get32(params, 16 + 4 * i));
}

static int engines_main(void)
{
        static unsigned char lists[3 * 4 * ENGINES];
        uint32_t engines[ENGINES] = { 0 }, n;
        struct kit_outcome outcome;

        kit_rm_open(&rm);
        n = engine_list(engines);
        for (uint32_t i = 0; i < n; i++)
                kit_put32(lists, 4 * i, engines[i]);
        outcome = kit_rm_control(&rm, KIT_SUBDEVICE, GET_RUNLISTS, lists, sizeof(lists));
        printf("run lists status=0x%llx\n", (unsigned long long)outcome.status);
        for (uint32_t i = 0; i < n; i++) {
                unsigned char caps[8] = { 0 };

                kit_put32(caps, 0, engines[i]);
                outcome = kit_rm_control(&rm, KIT_SUBDEVICE, GET_CAPS, caps, sizeof(caps));
                printf("engine=%u runlist=%d base=0x%x caps=0x%llx:%02x%02x%s", engines[i],
                       (int)kit_get32(lists, 4 * (2 * ENGINES + i)), kit_get32(lists, 4 * (ENGINES + i)),
                       (unsigned long long)outcome.status, caps[4], caps[5], caps[4] & 1 ? " GRCE" : "");
                say_partners(engines[i], 0);
                say_partners(engines[i], 1);
                printf("\n");
        }
        return 0;
}

/* ---- groups ----------------------------------------------------------------------------------------------- */

static void say_groups(void)
{
        for (size_t i = 0; i < n_groups; i++) {
                printf("group=0x%x said=%u engine=%u channels:", groups[i].handle, groups[i].said, groups[i].engine);
                for (size_t j = 0; j < n_channels; j++)
                        if (channels[j].group == groups[i].handle && channels[j].client == groups[i].client)
                                printf(" cid=%u token=0x%x runlist=%u", channels[j].cid, channels[j].token,
                                       channels[j].token >> 16 & 0x7f);
                printf("\n");
        }
}

/* Through the descriptor that made it, as libcuda itself would. */
static uint32_t control_as_libcuda(int fd, uint32_t client, uint32_t object, uint32_t command, uint32_t value)
{
        struct kit_rm theirs = { fd, -1, client };
        unsigned char params[4];

        kit_put32(params, 0, value);
        return (uint32_t)kit_rm_control(&theirs, object, command, params, sizeof(params)).status;
}

/* Whether a channel of each group takes a compute object, and whether the driver moves it to the graphics engine. */
static void try_objects(void)
{
        for (size_t i = 0; i < n_groups; i++) {
                const struct channel *channel = NULL;
                unsigned char params[16] = { 0 };
                struct kit_rm theirs = { groups[i].fd, -1, groups[i].client };
                struct kit_outcome outcome;

                for (size_t j = 0; j < n_channels; j++)
                        if (channels[j].group == groups[i].handle && channels[j].client == groups[i].client)
                                channel = &channels[j];
                if (!channel)
                        continue;
                outcome = kit_rm_alloc(&theirs, channel->handle, 0x5cabc000 + (uint32_t)i, COMPUTE_CLASS, params,
                                       sizeof(params));
                printf("group=0x%x engine=%u compute_object=0x%llx", groups[i].handle, groups[i].engine,
                       (unsigned long long)outcome.status);
                printf(" bind_channel_1=0x%x",
                       control_as_libcuda(channel->fd, channel->client, channel->handle, (uint32_t)BIND_CHANNEL, 1));
                printf(" bind_group_1=0x%x",
                       control_as_libcuda(groups[i].fd, groups[i].client, groups[i].handle, (uint32_t)BIND_GROUP, 1));
                printf(" token_then=0x%x\n",
                       control_as_libcuda(channel->fd, channel->client, channel->handle, (uint32_t)GET_TOKEN, 0));
        }
        say_groups(); /* a token that was asked for again was noted again */
}

static int ordinary_main(void)
{
        MUST(begin());
        say_groups();
        try_objects();
        return 0;
}

/* With which channels off its kernels stop. */
static void try_to_stop(struct queue *queue, enum which which)
{
        unsigned long off, on;
        int64_t status;
        double took = switch_channels(which, true, false, &status);

        (void)queue_run(queue, 0.05);
        off = queue_run(queue, 0.2);
        (void)switch_channels(which, false, false, &status);
        (void)queue_run(queue, 0.05);
        on = queue_run(queue, 0.2);
        printf("off=%s us=%.0f status=0x%llx kernels_while_off=%lu then=%lu\n", which_names[which], took,
               (unsigned long long)status, off, on);
}

static int says_main(const char *engine)
{
        struct queue kernels;
        const char *name = NULL;
        CUresult r;

        say = (uint32_t)strtoul(engine, NULL, 0);
        r = begin();
        if (r != CUDA_SUCCESS) {
                (void)cuGetErrorName(r, &name);
                printf("says=%u context=%s\n", say, name);
                say_groups();
                return 0;
        }
        queue_open(&kernels, false, 0);
        (void)queue_run(&kernels, 0.1);
        printf("says=%u context=ok kernels_per_s=%.0f\n", say, (double)queue_run(&kernels, 0.3) / 0.3);
        say_groups();
        kit_rm_open(&rm);
        try_to_stop(&kernels, COPY);
        try_to_stop(&kernels, COMPUTE);
        try_to_stop(&kernels, ALL);
        return 0;
}

/* ---- what switching costs and does ------------------------------------------------------------------------ */

struct switching {
        const char *work;
        bool has_kernels, has_copies;
        size_t mib; /* of a copy */
        enum which which;
        bool only_schedule;
};

static struct queue kernels, copies;

static int by_size(const void *a, const void *b)
{
        const double *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

/* What is done by now of both, and both full again. */
static void step_all(bool has_kernels, bool has_copies, unsigned long ret_done[2])
{
        if (has_kernels)
                queue_step(&kernels);
        if (has_copies)
                queue_step(&copies);
        ret_done[0] = kernels.done;
        ret_done[1] = copies.done;
}

/* Switched off, looked at 2 ms later and 10 ms after that, and on again: what was done in the 10 ms, and then. */
static double switch_once(const struct switching *is, bool is_disabled, unsigned long done[2], int64_t *status)
{
        unsigned long before[2], after[2];
        double took;

        step_all(is->has_kernels, is->has_copies, before);
        took = switch_channels(is->which, is_disabled, is->only_schedule, status);
        if (is_disabled)
                (void)usleep(2000);
        step_all(is->has_kernels, is->has_copies, before);
        (void)usleep(10000);
        step_all(is->has_kernels, is->has_copies, after);
        for (int i = 0; i < 2; i++)
                done[i] += after[i] - before[i];
        return took;
}

static void switch_row(const struct switching *is)
{
        double off[SWITCHES], on[SWITCHES];
        unsigned long while_off[2] = { 0 }, then[2] = { 0 };
        int64_t status = 0;

        for (int i = 0; i < SWITCHES; i++) {
                off[i] = switch_once(is, true, while_off, &status);
                on[i] = switch_once(is, false, then, &status);
        }
        qsort(off, SWITCHES, sizeof(*off), by_size);
        qsort(on, SWITCHES, sizeof(*on), by_size);
        printf("%-16s %-8s %5d %8.0f %8.0f %8.0f %8.0f %8lu %8lu %8lu %8lu 0x%llx\n", is->work, which_names[is->which],
               is->only_schedule, off[SWITCHES / 2], off[SWITCHES - 1], on[SWITCHES / 2], on[SWITCHES - 1],
               while_off[0], then[0], while_off[1], then[1], (unsigned long long)status);
}

static void drain(struct queue *queue)
{
        MUST(cuStreamSynchronize(queue->stream));
        queue->done = queue->n;
}

static void check_copy(void)
{
        unsigned char *back = malloc(copies.bytes);

        drain(&kernels);
        drain(&copies);
        MUST(cuMemcpyDtoH(back, copies.device, copies.bytes));
        printf("copies are %s\n", memcmp(back, copies.host, copies.bytes) ? "WRONG" : "right");
        free(back);
}

static int switch_main(void)
{
        static const struct switching works[] = {
                { "nothing", false, false, 4, ALL, false },     { "kernels", true, false, 4, ALL, false },
                { "copies 4 MiB", false, true, 4, ALL, false }, { "copies 512 MiB", false, true, 512, ALL, false },
                { "both, 64 MiB", true, true, 64, ALL, false },
        };

        MUST(begin());
        kit_rm_open(&rm);
        queue_open(&kernels, false, 0);
        queue_open(&copies, true, 512 * MIB);
        printf("%-16s %-8s %5s %8s %8s %8s %8s %8s %8s %8s %8s status\n", "work", "channels", "sched", "off us", "most",
               "on us", "most", "k off", "k on", "c off", "c on");
        for (size_t i = 0; i < sizeof(works) / sizeof(*works); i++) {
                struct switching is = works[i];

                copies.bytes = is.mib * MIB;
                for (is.which = COMPUTE; is.which < N_WHICH; is.which++)
                        switch_row(&is);
                is.which = ALL;
                is.only_schedule = true;
                switch_row(&is);
                drain(&kernels);
                drain(&copies);
        }
        check_copy();
        return 0;
}

/* ---- beside others ------------------------------------------------------------------------------------------ */

static int work_main(const char *what, const char *seconds, const char *toggle)
{
        bool has_kernels = !strcmp(what, "kernels") || !strcmp(what, "both");
        bool has_copies = !strcmp(what, "copies") || !strcmp(what, "both");
        enum which which = toggle && !strcmp(toggle, "compute") ? COMPUTE : ALL;
        unsigned long k, c;
        double began, until, next_switch;
        bool is_off = false;
        int64_t status;

        MUST(begin());
        kit_rm_open(&rm);
        queue_open(&kernels, false, 0);
        queue_open(&copies, true, 16 * MIB);
        began = next_switch = now() + 0.3;
        until = began + strtod(seconds, NULL);
        (void)usleep(300000);
        k = kernels.done, c = copies.done;
        while (now() < until) {
                if (has_kernels)
                        queue_step(&kernels);
                if (has_copies)
                        queue_step(&copies);
                if (toggle && now() >= next_switch) {
                        is_off = !is_off;
                        (void)switch_channels(which, is_off, false, &status);
                        next_switch = now() + 0.025;
                }
                (void)usleep(20);
        }
        if (is_off)
                (void)switch_channels(which, false, false, &status);
        printf("work=%s toggle=%s kernels_per_s=%.0f copies_gib_per_s=%.2f\n", what, toggle ? toggle : "no",
               (double)(kernels.done - k) / (now() - began),
               (double)(copies.done - c) * (double)copies.bytes / (double)(1ull << 30) / (now() - began));
        drain(&kernels);
        drain(&copies);
        return 0;
}

int main(int argc, char **argv)
{
        const char *engine = getenv("GROUPS_SAY");

        say = engine ? (uint32_t)strtoul(engine, NULL, 0) : 0;
        if (argc == 2 && !strcmp(argv[1], "engines"))
                return engines_main();
        if (argc == 2 && !strcmp(argv[1], "ordinary"))
                return ordinary_main();
        if (argc == 3 && !strcmp(argv[1], "says"))
                return says_main(argv[2]);
        if (argc == 2 && !strcmp(argv[1], "switch"))
                return switch_main();
        if ((argc == 4 || argc == 5) && !strcmp(argv[1], "work"))
                return work_main(argv[2], argv[3], argc == 5 ? argv[4] : NULL);
        fprintf(stderr, "usage: groups engines | ordinary | says ENGINE | switch | work kernels|copies|both SECONDS "
                        "[compute|all]\n");
        return 2;
}
