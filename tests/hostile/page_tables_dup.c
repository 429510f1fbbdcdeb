/* SPDX-License-Identifier: Apache-2.0 */
/* A lazy reservation costs nothing, nor does a dup of it; memory that is mapped through the dup, with small pages,
 * does. */
#include "kit.h"

enum {
        NR_DUP = 0x34,
        CLASS_SPACE = 0x90f1,
        SPACE = KIT_MEMORY,
        RESERVATION,
        DUP,
        MEMORY,
        LAZY = 0x80400,
        SMALL = 1 << 23,
        MAP_SMALL = 1 << 8,
        MAP_FIXED_THERE = 1 << 15,
};

static bool dup_it(const struct kit_rm *rm)
{
        unsigned char block[28] = { 0 };

        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, KIT_DEVICE);
        kit_put32(block, 8, DUP);
        kit_put32(block, 12, rm->client);
        kit_put32(block, 16, RESERVATION);
        return kit_ioctl(rm->ctl, (3ul << 30) | (sizeof(block) << 16) | ('F' << 8) | NR_DUP, block) == 0 &&
               kit_get32(block, 24) == 0;
}

int main(void)
{
        const uint64_t size = 256 * MIB, n_max = 8 * kit_quota_mib();
        unsigned char params[128] = { 0 };
        uint64_t n = 0, base = 0, at;
        struct kit_rm rm;

        kit_rm_open(&rm);
        if (!kit_ok(kit_rm_alloc(&rm, KIT_DEVICE, SPACE, CLASS_SPACE, params, sizeof(params))) ||
            !kit_ok(kit_rm_reserve(&rm, RESERVATION, SPACE, (n_max + 2) * size, LAZY, SMALL)) || !dup_it(&rm) ||
            !kit_ok(kit_rm_memory(&rm, MEMORY, size)) || !kit_ok(kit_rm_map(&rm, DUP, MEMORY, size, MAP_SMALL, &base)))
                kit_cannot("nothing to map in");
        for (base = (base + size - 1) / size * size; n < n_max && n / 2 <= 2 * kit_quota_mib(); n++) {
                at = base + (n + 1) * size;
                if (!kit_ok(kit_rm_map(&rm, DUP, MEMORY, size, MAP_SMALL | MAP_FIXED_THERE, &at)))
                        break;
        }
        kit_hold(size / MIB + n / 2);
        return 0;
}
