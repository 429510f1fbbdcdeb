/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks that its context is preempted in other ways than CUDA does: not before its kernels end, say, so that nobody else
 * gets a turn while one runs. It repeats libcuda's own call, with every mode, by both controls that set one. "taken=N":
 * how many the driver took, libcuda's own among them.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
        NR_CONTROL = 0x2a,
        SET_MODE = 0x20801210, /* flags@0 channel@4 graphics@8 compute@12 */
        BIND = 0x20801211,     /* flags@0 client@4 channel@8 buffers@16 graphics@88 compute@92, 580 */
        SET_SIZE = 32,
        BIND_SIZE = 112,
};

static int fd_of_mode = -1;
static uint32_t client, subdevice, channel;
static int (*next)(int, unsigned long, ...);

int ioctl(int fd, unsigned long request, ...);

/* Also libcuda's. */
int ioctl(int fd, unsigned long request, ...)
{
        unsigned char *block;
        va_list list;
        int r;

        va_start(list, request);
        block = va_arg(list, unsigned char *);
        va_end(list);
        if (!next)
                next = (int (*)(int, unsigned long, ...))(uintptr_t)dlsym(RTLD_NEXT, "ioctl");
        r = next(fd, request, block);
        if (r == 0 && (request & 0xff) == NR_CONTROL && (request >> 16 & 0x3fff) == 32 &&
            kit_get32(block, 8) == SET_MODE && kit_get32(block, 28) == 0) {
                void *params;

                memcpy(&params, block + 16, sizeof(params));
                fd_of_mode = fd;
                client = kit_get32(block, 0);
                subdevice = kit_get32(block, 4);
                channel = kit_get32(params, 4);
        }
        return r;
}

static unsigned int ask(uint32_t flags, uint32_t graphics, uint32_t compute)
{
        const struct kit_rm rm = { fd_of_mode, -1, client };
        unsigned char set[SET_SIZE] = { 0 }, bind[BIND_SIZE] = { 0 };
        unsigned int taken;

        kit_put32(set, 0, flags);
        kit_put32(set, 4, channel);
        kit_put32(set, 8, graphics);
        kit_put32(set, 12, compute);
        taken = kit_ok(kit_rm_control(&rm, subdevice, SET_MODE, set, sizeof(set)));
        kit_put32(bind, 0, flags);
        kit_put32(bind, 4, client);
        kit_put32(bind, 8, channel);
        kit_put32(bind, 88, graphics);
        kit_put32(bind, 92, compute);
        return taken + kit_ok(kit_rm_control(&rm, subdevice, BIND, bind, sizeof(bind)));
}

int main(void)
{
        unsigned int taken = 0;

        kit_start();
        if (fd_of_mode < 0)
                kit_cannot("libcuda has asked for no mode");
        for (uint32_t flags = 1; flags < 4; flags++)
                for (uint32_t graphics = 0; graphics < 3; graphics++)
                        for (uint32_t compute = 0; compute < 3; compute++)
                                if (flags != 1 || graphics == 0)
                                        taken += ask(flags, graphics, compute);
        printf("taken=%u\n", taken);
        kit_hold(0);
        return 0;
}
