/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabricfacts - what the driver does about fabric memory, class 0xf8, on a machine with NVLink.
 *
 *      gcc -O2 -std=gnu17 tests/gpu/fabricfacts.c tests/hostile/kit.c -lcuda -lpthread -o fabricfacts && ./fabricfacts
 *
 * Questions, a line each; free= is what the driver calls free, in MiB, after each step:
 *      over        is memory kept by the fabric object that is made over it, whoever is freed first?
 *      flexible    and by one to which it was attached?
 *      twice       attached twice to one place, detached twice
 *      foreign     made over a handle of another client; over a handle of nobody
 *      addresses   how large an object of the flexible kind may be, and what it takes of the memory
 *      import      by a name that nobody exported
 * Without a library but for the kit; never multicast.
 */
#define _GNU_SOURCE
#include "../hostile/kit.h"

#include <stdio.h>
#include <string.h>

#define GIB (1024 * MIB)

enum {
        FABRIC = 0xf8,
        IMPORT = 0xf9,
        FLEXIBLE = 1,
        GET_INFO = 0xf80101,
        ATTACH = 0xf80103,
        DETACH = 0xf80104,
        COUNT = 0xf80105,
        FB_INFO = 0x20801303,
        HEAP_FREE = 0x16,
        H = KIT_MEMORY, /* memory; fabric objects from here + 0x100 on */
};

static uint64_t free_mib(const struct kit_rm *rm)
{
        static unsigned char params[1028];

        memset(params, 0, sizeof(params));
        kit_put32(params, 0, 1);
        kit_put32(params, 4, HEAP_FREE);
        return kit_ok(kit_rm_control(rm, KIT_SUBDEVICE, FB_INFO, params, sizeof(params))) ?
                       kit_get32(params, 8) / 1024 :
                       0;
}

static struct kit_outcome fabric(const struct kit_rm *rm, uint32_t object, uint64_t size, uint64_t page, uint32_t flags,
                                 uint32_t memory)
{
        unsigned char params[48] = { 0 };

        kit_put64(params, 0, page);
        kit_put64(params, 8, size);
        kit_put64(params, 16, page);
        kit_put32(params, 24, flags);
        kit_put32(params, 40, memory);
        return kit_rm_alloc(rm, KIT_SUBDEVICE, object, FABRIC, params, sizeof(params));
}

static struct kit_outcome attach(const struct kit_rm *rm, uint32_t object, uint32_t memory, uint64_t offset,
                                 uint64_t length)
{
        static unsigned char params[2064];

        memset(params, 0, sizeof(params));
        kit_put32(params, 0, memory);
        kit_put64(params, 8, offset);
        kit_put64(params, 24, length);
        kit_put32(params, 2048, 1);
        return kit_rm_control(rm, object, ATTACH, params, sizeof(params));
}

static struct kit_outcome detach(const struct kit_rm *rm, uint32_t object, uint64_t offset)
{
        static unsigned char params[528];

        memset(params, 0, sizeof(params));
        kit_put64(params, 0, offset);
        kit_put32(params, 512, 1);
        return kit_rm_control(rm, object, DETACH, params, sizeof(params));
}

static void say_status(const char *name, struct kit_outcome outcome)
{
        printf(" %s=0x%llx", name, (unsigned long long)outcome.status);
}

static void over(const struct kit_rm *rm, bool is_memory_first)
{
        unsigned char info[32] = { 0 };

        printf("over first=%s free=%llu", is_memory_first ? "memory" : "fabric", (unsigned long long)free_mib(rm));
        say_status("memory", kit_rm_memory(rm, H, GIB));
        printf(" free=%llu", (unsigned long long)free_mib(rm));
        say_status("fabric", fabric(rm, H + 0x100, GIB, 512 * MIB, 0, H));
        say_status("info", kit_rm_control(rm, H + 0x100, GET_INFO, info, sizeof(info)));
        printf(" size_mib=%u free=%llu", kit_get32(info, 0) >> 20, (unsigned long long)free_mib(rm));
        (void)kit_rm_free(rm, is_memory_first ? KIT_DEVICE : KIT_SUBDEVICE, is_memory_first ? H : H + 0x100);
        printf(" one_freed=%llu", (unsigned long long)free_mib(rm));
        (void)kit_rm_free(rm, is_memory_first ? KIT_SUBDEVICE : KIT_DEVICE, is_memory_first ? H + 0x100 : H);
        printf(" both_freed=%llu\n", (unsigned long long)free_mib(rm));
}

static void flexible(const struct kit_rm *rm)
{
        unsigned char count[24] = { 0 };

        printf("flexible free=%llu", (unsigned long long)free_mib(rm));
        say_status("fabric", fabric(rm, H + 0x100, 512 * MIB, 512 * MIB, FLEXIBLE, 0));
        say_status("memory", kit_rm_memory(rm, H, 64 * MIB));
        say_status("attach", attach(rm, H + 0x100, H, 0, 64 * MIB));
        printf(" free=%llu", (unsigned long long)free_mib(rm));
        (void)kit_rm_free(rm, KIT_DEVICE, H);
        kit_put64(count, 8, 512 * MIB - 1);
        say_status("count", kit_rm_control(rm, H + 0x100, COUNT, count, sizeof(count)));
        printf(" attached=%u memory_freed=%llu", kit_get32(count, 16) & 0xffff, (unsigned long long)free_mib(rm));
        say_status("detach", detach(rm, H + 0x100, 0));
        (void)kit_rm_free(rm, KIT_SUBDEVICE, H + 0x100);
        printf(" both_freed=%llu\n", (unsigned long long)free_mib(rm));
}

static void twice(const struct kit_rm *rm)
{
        printf("twice");
        say_status("fabric", fabric(rm, H + 0x100, 512 * MIB, 512 * MIB, FLEXIBLE, 0));
        say_status("memory", kit_rm_memory(rm, H, 64 * MIB));
        say_status("attach", attach(rm, H + 0x100, H, 0, 64 * MIB));
        say_status("again", attach(rm, H + 0x100, H, 0, 64 * MIB));
        say_status("elsewhere", attach(rm, H + 0x100, H, 64 * MIB, 64 * MIB));
        say_status("beyond", attach(rm, H + 0x100, H, 512 * MIB, 64 * MIB));
        say_status("detach", detach(rm, H + 0x100, 0));
        say_status("again", detach(rm, H + 0x100, 0));
        (void)kit_rm_free(rm, KIT_SUBDEVICE, H + 0x100);
        (void)kit_rm_free(rm, KIT_DEVICE, H);
        printf(" free=%llu\n", (unsigned long long)free_mib(rm));
}

static void foreign(const struct kit_rm *rm)
{
        struct kit_rm other;

        kit_rm_open(&other);
        printf("foreign");
        say_status("memory", kit_rm_memory(&other, H + 0x55, 512 * MIB));
        say_status("over_another_clients", fabric(rm, H + 0x100, 512 * MIB, 512 * MIB, 0, H + 0x55));
        say_status("over_nobodys", fabric(rm, H + 0x101, 512 * MIB, 512 * MIB, 0, H + 0x66));
        say_status("over_nothing", fabric(rm, H + 0x102, 512 * MIB, 512 * MIB, 0, 0));
        say_status("flexible", fabric(rm, H + 0x103, 512 * MIB, 512 * MIB, FLEXIBLE, 0));
        say_status("attach_another_clients", attach(rm, H + 0x103, H + 0x55, 0, 512 * MIB));
        for (uint32_t i = 0; i < 4; i++)
                (void)kit_rm_free(rm, KIT_SUBDEVICE, H + 0x100 + i);
        (void)kit_rm_free(&other, KIT_DEVICE, H + 0x55);
        printf("\n");
}

/* The largest size that is granted, by halves; each object is freed at once. */
static void addresses(const struct kit_rm *rm)
{
        uint64_t low = 0, high = 1ull << 41, before = free_mib(rm);

        for (int i = 0; i < 36 && high - low > 512 * MIB; i++) {
                uint64_t size = (low + (high - low) / 2) / (512 * MIB) * (512 * MIB);

                if (size <= low)
                        break;
                if (kit_ok(fabric(rm, H + 0x100, size, 512 * MIB, FLEXIBLE, 0))) {
                        (void)kit_rm_free(rm, KIT_SUBDEVICE, H + 0x100);
                        low = size;
                } else {
                        high = size;
                }
        }
        printf("addresses largest_gib=%.1f", (double)low / (double)GIB);
        say_status("half", fabric(rm, H + 0x100, low / 2 / (512 * MIB) * (512 * MIB), 512 * MIB, FLEXIBLE, 0));
        printf(" takes_mib=%llu", (unsigned long long)(before - free_mib(rm)));
        say_status("second_half_and_more",
                   fabric(rm, H + 0x101, low / 2 / (512 * MIB) * (512 * MIB) + 2 * GIB, 512 * MIB, FLEXIBLE, 0));
        (void)kit_rm_free(rm, KIT_SUBDEVICE, H + 0x100);
        (void)kit_rm_free(rm, KIT_SUBDEVICE, H + 0x101);
        printf(" free=%llu\n", (unsigned long long)free_mib(rm));
}

static void import(const struct kit_rm *rm)
{
        unsigned char params[64] = { 0 };

        memset(params + 4, 0xa5, 32);
        printf("import");
        say_status("nobodys", kit_rm_alloc(rm, rm->client, H + 0x100, IMPORT, params, sizeof(params)));
        printf("\n");
}

int main(void)
{
        struct kit_rm rm;

        setvbuf(stdout, NULL, _IOLBF, 0);
        kit_rm_open(&rm);
        over(&rm, true);
        over(&rm, false);
        flexible(&rm);
        twice(&rm);
        foreign(&rm);
        addresses(&rm);
        import(&rm);
        return 0;
}
