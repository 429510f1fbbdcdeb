/* SPDX-License-Identifier: Apache-2.0 */
/* Clients, VA spaces, reservations of addresses, and mappings in them. */
#include "ownmem.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
        NR_MAP_DMA = 0x57,
        CLASS_SPACE = 0x90f1,
        CLASS_VIRTUAL = 0x50a0,
};

/* ---- clients, spaces, reservations ---------------------------------------------------------------------------- */

static struct kit_outcome virtual_alloc(const struct kit_rm *rm, uint32_t handle, uint32_t space, uint64_t size,
                                        uint32_t page, uint32_t flags)
{
        unsigned char params[128] = { 0 };

        kit_put32(params, 0, rm->client);
        kit_put32(params, 8, 0x80000 | flags);
        kit_put32(params, 24, page << 23);
        kit_put64(params, 64, size);
        kit_put32(params, 108, space);
        return kit_rm_alloc(rm, KIT_DEVICE, handle, CLASS_VIRTUAL, params, sizeof(params));
}

static void reservations(const struct kit_rm *rm, uint32_t space)
{
        static const char *const pages[] = { "default", "4K", "big", "huge" };
        static const uint32_t lazy[] = { 0, 0x400, 0x400000, 0x4000000 };
        char what[80];

        for (uint32_t flag = 0; flag < 4; flag++)
                for (uint32_t page = 0; page < 4; page++)
                        for (uint64_t size = 1; size <= 256; size *= 16) {
                                long long before = used();
                                struct kit_outcome outcome =
                                        virtual_alloc(rm, KIT_MEMORY, space, size * GIB, page, lazy[flag]);

                                (void)snprintf(what, sizeof(what), "0x50a0 %s flags 0x%x %lluG", pages[page],
                                               lazy[flag], (unsigned long long)size);
                                say(what, 1, before, 0, outcome);
                                (void)kit_rm_free(rm, KIT_DEVICE, KIT_MEMORY);
                                if (used() != before)
                                        say_left(what, before);
                        }
}

static struct kit_outcome map_dma(const struct kit_rm *rm, uint32_t dma, uint32_t memory, uint64_t length,
                                  uint32_t flags, uint64_t *at)
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
        outcome = driver_call(rm->ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_MAP_DMA, sizeof(block)), block, 56);
        memcpy(at, block + 48, 8);
        return outcome;
}

/* One memory in many places of a lazy reservation, so many bytes apart. */
static void maps(const struct kit_rm *rm, uint32_t space, uint64_t memory_size, uint64_t apart, uint32_t page)
{
        enum { N = 48, FIXED = 1 << 15 };
        struct kit_outcome outcome = virtual_alloc(rm, KIT_MEMORY, space, N * apart + GIB, page, 0x400);
        uint64_t at = 0, base;
        long long before;
        unsigned int n = 0;
        char what[80];

        printf("# reservation status=0x%llx\n", (unsigned long long)outcome.status);
        outcome = memory_alloc(rm, KIT_MEMORY + 1, memory_size, page ? page : memory_size < 2 * MIB ? 2 : 3);
        printf("# memory status=0x%llx\n", (unsigned long long)outcome.status);
        before = used();
        outcome = map_dma(rm, KIT_MEMORY, KIT_MEMORY + 1, memory_size, 0, &at);
        say("first mapping of a space", 1, before, 0, outcome);
        base = (at + apart - 1) / apart * apart;
        before = used();
        for (; n < N && kit_ok(outcome); n++) {
                at = base + n * apart;
                outcome = map_dma(rm, KIT_MEMORY, KIT_MEMORY + 1, memory_size, FIXED, &at);
        }
        (void)snprintf(what, sizeof(what), "map 0x57 of %lluK, %lluM apart, page %u",
                       (unsigned long long)memory_size / 1024, (unsigned long long)(apart / MIB), page);
        say(what, n, before, 0, outcome);
        (void)kit_rm_free(rm, KIT_DEVICE, KIT_MEMORY);
        (void)kit_rm_free(rm, KIT_DEVICE, KIT_MEMORY + 1);
        say_left("the reservation and the memory were freed", before);
}

static uint32_t spaces(const struct kit_rm *rm, uint32_t flags)
{
        enum { N = 8 };
        struct kit_outcome outcome = { 0 };
        long long before = used();
        char what[80];

        for (uint32_t i = 0; i < N; i++) {
                unsigned char params[56] = { 0 };

                kit_put32(params, 4, flags);
                outcome =
                        kit_rm_alloc(rm, KIT_DEVICE, 0x5d000000 + flags * 16 + i, CLASS_SPACE, params, sizeof(params));
        }
        (void)snprintf(what, sizeof(what), "VA space flags 0x%x", flags);
        say(what, N, before, 0, outcome);
        return 0x5d000000 + flags * 16;
}

void objects(void)
{
        enum { N = 32 };
        static struct kit_rm many[N];
        struct kit_rm *rm = &many[0];
        long long before;
        uint32_t space;

        kit_rm_open(rm);
        (void)used();
        before = used();
        for (int i = 1; i < N; i++)
                kit_rm_open(&many[i]);
        say("client, device, subdevice, two files", N - 1, before, 0, (struct kit_outcome){ 0 });
        space = spaces(rm, 0);
        (void)spaces(rm, 0x48);
        (void)spaces(rm, 1);
        reservations(rm, space);
        maps(rm, space, 64 * 1024, 2 * MIB, 1);
        maps(rm, space, 64 * 1024, 2 * MIB, 2);
        maps(rm, space, 64 * 1024, 512 * MIB, 0);
        maps(rm, space, 2 * MIB, 512 * MIB, 3);
        maps(rm, space, 2 * MIB, GIB, 0);
}
