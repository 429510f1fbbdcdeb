/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of UVM whose page tables lie far apart. */
#include "ownmem.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
        UVM_MAP_EXTERNAL = 33,
        UVM_FREE = 34,
        UVM_CREATE_EXTERNAL = 73,
        UVM_MAP_SPARSE = 74,
};

/* ---- UVM -------------------------------------------------------------------------------------------------------- */

static struct kit_outcome range_call(unsigned long number, uint64_t base, uint64_t length, int with_uuid)
{
        unsigned char block[40] = { 0 };

        kit_put64(block, 0, base);
        kit_put64(block, 8, length);
        if (with_uuid)
                memcpy(block + 16, registered, 16);
        return driver_call(price_uvm, number, block, with_uuid ? 32 : 16);
}

static struct kit_outcome map_external(uint64_t base, uint64_t length, uint32_t client, uint32_t memory)
{
        static unsigned char block[9264];

        memset(block, 0, sizeof(block));
        kit_put64(block, 0, base);
        kit_put64(block, 8, length);
        memcpy(block + 24, registered, 16);
        kit_put32(block, 40, 1);
        kit_put64(block, 9240, 1);
        kit_put32(block, 9248, (uint32_t)price_ctl);
        kit_put32(block, 9252, client);
        kit_put32(block, 9256, memory);
        return driver_call(price_uvm, UVM_MAP_EXTERNAL, block, 9260);
}

static void externals(const struct kit_rm *rm, uint64_t memory_size, uint64_t apart, uint64_t base)
{
        enum { N = 48 };
        struct kit_outcome outcome = memory_alloc(rm, KIT_MEMORY, memory_size, memory_size < 2 * MIB ? 2 : 3);
        long long before;
        unsigned int n = 0;
        char what[80];

        printf("# memory status=0x%llx\n", (unsigned long long)outcome.status);
        before = used();
        for (; n < N && kit_ok(outcome); n++) {
                outcome = range_call(UVM_CREATE_EXTERNAL, base + n * apart, memory_size, 0);
                if (kit_ok(outcome))
                        outcome = map_external(base + n * apart, memory_size, rm->client, KIT_MEMORY);
        }
        (void)snprintf(what, sizeof(what), "uvm map of %lluK, %lluM apart", (unsigned long long)memory_size / 1024,
                       (unsigned long long)(apart / MIB));
        say(what, n, before, 0, outcome);
        (void)kit_rm_free(rm, KIT_DEVICE, KIT_MEMORY);
        for (unsigned int i = 0; i < n; i++)
                (void)range_call(UVM_FREE, base + i * apart, memory_size, 0);
        say_left("they were freed, with the memory", before);
}

static void sparse(uint64_t base, uint64_t length)
{
        long long before = used();
        struct kit_outcome outcome = range_call(UVM_CREATE_EXTERNAL, base, length, 0);
        char what[80];

        (void)snprintf(what, sizeof(what), "uvm external range of %lluG", (unsigned long long)(length / GIB));
        say(what, 1, before, 0, outcome);
        outcome = range_call(UVM_MAP_SPARSE, base, length, 1);
        (void)snprintf(what, sizeof(what), "and mapped as sparse, %lluG", (unsigned long long)(length / GIB));
        say(what, 1, before, 0, outcome);
        (void)range_call(UVM_FREE, base, length, 0);
        say_left("it was freed", before);
}

static void managed(uint64_t apart)
{
        enum { N = 48, PAGE = 4096 };
        long long before;
        unsigned int n = 0;
        char what[80];

        before = used();
        for (uint64_t base = kit_map_at; n < N; n++, base += apart) {
                if (mmap((void *)base, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, price_uvm,
                         (off_t)base) == MAP_FAILED)
                        break;
                (void)cuMemsetD8(base, 1, PAGE);
        }
        (void)cuCtxSynchronize();
        (void)snprintf(what, sizeof(what), "managed 4K, %lluM apart", (unsigned long long)(apart / MIB));
        say(what, n, before, 0, (struct kit_outcome){ 0 });
        kit_map_at += N * apart;
}

void ranges(void)
{
        struct kit_rm rm;

        price_save(kit_start);
        price_uvm = kit_uvm();
        kit_rm_open(&rm); /* a client beside libcuda's */
        price_ctl = rm.ctl;
        externals(&rm, 64 * 1024, 2 * MIB, 0x520000000000ull);
        externals(&rm, 64 * 1024, 512 * MIB, 0x530000000000ull);
        externals(&rm, 2 * MIB, 512 * MIB, 0x540000000000ull);
        externals(&rm, 2 * MIB, 2 * MIB, 0x550000000000ull);
        sparse(0x560000000000ull, 1 * GIB);
        sparse(0x560000000000ull, 64 * GIB);
        sparse(0x560000000000ull, 1024 * GIB);
        managed(2 * MIB);
        managed(512 * MIB);
}
