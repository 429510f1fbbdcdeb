/* SPDX-License-Identifier: Apache-2.0 */
/* What a decoder, JPEG and Vulkan ask for at their start, as recorded (tests/trace/h100-580.159.04): what a tenant
 * without the capability must not have. "video=N graphics=N profile=N": how many steps of each were granted, all or
 * some; "of" is how many there are. */
#include "kit.h"

#include <stdio.h>
#include <sys/ioctl.h>

enum {
        NR_ALLOC_MEMORY = 0x27,
        NR_ALLOC_DMA = 0x54,
        CLASS_GROUP = 0xa06c,
        CLASS_CHANNEL = 0xc86f,
        CHANNEL_PARAMS = 368,
        CHANNEL_ENGINE_AT = 128,
        GRAPHICS = 0x01,
        DECODER = 0x14,
        JPEG = 0x2b,
};

static struct kit_rm rm;
static uint32_t next = KIT_MEMORY;

/* An object; its handle, 0: refused. */
static uint32_t make(uint32_t parent, uint32_t class_number, unsigned char *params, uint32_t size)
{
        uint32_t handle = next++;

        return kit_ok(kit_rm_alloc(&rm, parent, handle, class_number, params, size)) ? handle : 0;
}

static bool ask(uint32_t object, uint32_t number, uint32_t size)
{
        unsigned char params[4096] = { 0 };

        return kit_ok(kit_rm_control(&rm, object, number, params, size));
}

/* A channel without a group, and an object of the engine in it. */
static int engine(uint32_t number, uint32_t class_number)
{
        unsigned char params[CHANNEL_PARAMS] = { 0 };
        uint32_t channel;

        kit_put32(params, CHANNEL_ENGINE_AT, number);
        channel = make(KIT_DEVICE, CLASS_CHANNEL, params, sizeof(params));
        return (channel != 0) + (channel && make(channel, class_number, NULL, 0));
}

enum { VIDEO_STEPS = 8 };

static int video(void)
{
        return ask(KIT_SUBDEVICE, 0x20808165, 1) + ask(KIT_SUBDEVICE, 0x2080a028, 2192) +
               ask(KIT_DEVICE, 0x00801c02, 12) + ask(KIT_DEVICE, 0x00801f02, 16) + engine(DECODER, 0xb8b0) +
               engine(JPEG, 0xb8d1);
}

/* A list of bytes that the driver fills: its length @0, its address @8. */
static bool ask_bytes(uint32_t number, uint32_t n)
{
        unsigned char params[16] = { 0 }, bytes[64];

        kit_put32(params, 0, n);
        kit_put64(params, 8, (uintptr_t)bytes);
        return kit_ok(kit_rm_control(&rm, KIT_DEVICE, number, params, sizeof(params)));
}

/* Requests with blocks of their own; the status stands at `status_at`. */
static bool old(int fd, unsigned int nr, unsigned char block[static 56], size_t status_at)
{
        kit_put32(block, status_at, 0xffffffffu);
        return kit_ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', nr, 56), block) == 0 && kit_get32(block, status_at) == 0;
}

/* All of the device's registers (0x3f) or memory (0x40), which only root may have: others get an empty object. */
static bool whole(uint32_t class_number)
{
        unsigned char block[56] = { 0 };

        kit_put32(block, 0, rm.client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, next++);
        kit_put32(block, 12, class_number);
        return old(rm.node, NR_ALLOC_MEMORY, block, 40);
}

/* A window on host memory. */
static bool window(void)
{
        unsigned char block[56] = { 0 }, params[128] = { 0 };
        uint32_t memory;

        kit_rm_memory_params(&rm, params, MIB);
        memory = make(KIT_DEVICE, KIT_CLASS_MEMORY, params, sizeof(params));
        kit_put32(block, 0, rm.client);
        kit_put32(block, 8, next++);
        kit_put32(block, 12, 0x02);
        kit_put32(block, 24, memory);
        kit_put64(block, 40, MIB - 1);
        return memory && old(rm.ctl, NR_ALLOC_DMA, block, 48);
}

enum { GRAPHICS_STEPS = 12 };

static int graphics(void)
{
        unsigned char params[CHANNEL_PARAMS] = { 0 };
        uint32_t group, channel;

        kit_put32(params, 12, GRAPHICS);
        group = make(KIT_DEVICE, CLASS_GROUP, params, 32);
        kit_put32(params, 12, 0);
        kit_put32(params, CHANNEL_ENGINE_AT, GRAPHICS);
        channel = make(group, CLASS_CHANNEL, params, sizeof(params));
        return ask_bytes(0x00801301, 3) + ask_bytes(0x00801102, 23) + ask(KIT_SUBDEVICE, 0x2080a0d1, 2024) +
               ask(KIT_SUBDEVICE, 0x20810107, 2) + ask(KIT_SUBDEVICE, 0x20803d07, 1) +
               (make(KIT_SUBDEVICE, 0x9096, NULL, 0) != 0) + (make(channel, 0xcb97, NULL, 0) != 0) +
               (make(channel, 0x902d, NULL, 0) != 0) + (make(channel, 0xa140, NULL, 0) != 0) + whole(0x3f) +
               whole(0x40) + window();
}

static int profile(void)
{
        return ask(KIT_SUBDEVICE, 0x20801346, 16);
}

int main(void)
{
        kit_rm_open(&rm);
        printf("video=%d of_video=%d graphics=%d of_graphics=%d profile=%d\n", video(), VIDEO_STEPS, graphics(),
               GRAPHICS_STEPS, profile());
        return 0;
}
