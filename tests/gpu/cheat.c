/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libsublet-cheat.so - what a tenant might try to get more of the device's time, beside any program.
 *
 *      SUBLET_CHEAT=schedule|slice LD_PRELOAD=libsublet-cheat.so:... PROGRAM
 *
 * Each call that schedules a group or a channel is remembered; a second later a thread repeats them all, without
 * end: as they were (a channel that was switched off might come on again), or as SET_TIMESLICE of 1 s. It stands before
 * libsublet-sim.so in LD_PRELOAD and passes everything on.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        CALLS = 64,
        CONTROL = 0x2a, /* its block: client, object, command, flags, pointer to parameters, their size, status */
        SCHEDULE_GROUP = 0xa06c0101,
        SCHEDULE_CHANNEL = 0xa06f0103,
        SET_TIMESLICE = 0xa06c0103,
};

struct call {
        int fd;
        unsigned long request;
        uint32_t client, object, command, flags;
        uint64_t params;
        uint32_t params_size, status;
        unsigned char copy[64];
};

static struct call calls[CALLS];
static atomic_int n_calls;
static int (*next)(int, unsigned long, ...);

int ioctl(int fd, unsigned long request, ...);

static void repeat(struct call call, int is_slice)
{
        uint64_t slice = 1000000;

        call.params = (uint64_t)(uintptr_t)(is_slice ? (void *)&slice : (void *)call.copy);
        if (is_slice && call.command == SCHEDULE_GROUP) {
                call.command = SET_TIMESLICE;
                call.params_size = sizeof(slice);
        }
        (void)next(call.fd, call.request, &call.client);
}

static void *cheat(void *mode)
{
        int is_slice = !strcmp(mode, "slice");

        (void)sleep(1);
        for (;;)
                for (int i = 0; i < n_calls; i++)
                        repeat(calls[i], is_slice);
        return NULL;
}

static void remember(int fd, unsigned long request, const void *block)
{
        static atomic_flag has_thread = ATOMIC_FLAG_INIT;
        char *mode = getenv("SUBLET_CHEAT");
        struct call *call = &calls[n_calls];
        pthread_t thread;

        if (!mode || n_calls == CALLS)
                return;
        *call = (struct call){ .fd = fd, .request = request };
        memcpy(&call->client, block, 32);
        if ((call->command != SCHEDULE_GROUP && call->command != SCHEDULE_CHANNEL) || call->params_size > 64)
                return;
        memcpy(call->copy, (const void *)(uintptr_t)call->params, call->params_size);
        n_calls++;
        if (!atomic_flag_test_and_set(&has_thread))
                (void)pthread_create(&thread, NULL, cheat, mode);
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
        va_list list;
        void *block;
        int r;

        va_start(list, request);
        block = va_arg(list, void *);
        va_end(list);
        if (!next)
                *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
        r = next(fd, request, block);
        if (r == 0 && (request & 0xff) == CONTROL && ((request >> 16) & 0x3fff) == 32)
                remember(fd, request, block);
        return r;
}
