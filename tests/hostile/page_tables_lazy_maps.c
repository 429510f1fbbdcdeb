/* SPDX-License-Identifier: Apache-2.0 */
/* A lazy reservation of addresses costs nothing; one memory mapped in it again and again, with small pages, does. */
#include "kit.h"

int main(void)
{
        enum { CLASS_SPACE = 0x90f1, SPACE = KIT_MEMORY, RESERVATION, MEMORY, LAZY = 0x80400, SMALL = 1 << 23 };
        enum { MAP_SMALL = 1 << 8, MAP_FIXED_THERE = 1 << 15 };
        const uint64_t size = 256 * MIB, n_max = 8 * kit_quota_mib();
        unsigned char params[128] = { 0 };
        uint64_t n = 0, base = 0, at;
        struct kit_rm rm;

        kit_rm_open(&rm);
        if (!kit_ok(kit_rm_alloc(&rm, KIT_DEVICE, SPACE, CLASS_SPACE, params, sizeof(params))) ||
            !kit_ok(kit_rm_reserve(&rm, RESERVATION, SPACE, (n_max + 2) * size, LAZY, SMALL)) ||
            !kit_ok(kit_rm_memory(&rm, MEMORY, size)) ||
            !kit_ok(kit_rm_map(&rm, RESERVATION, MEMORY, size, MAP_SMALL, &base)))
                kit_cannot("nothing to map in");
        for (base = (base + size - 1) / size * size; n < n_max; n++) {
                at = base + (n + 1) * size;
                if (!kit_ok(kit_rm_map(&rm, RESERVATION, MEMORY, size, MAP_SMALL | MAP_FIXED_THERE, &at)))
                        break;
                if (size / MIB + n / 2 > kit_quota_mib() + 64) /* no more than it takes: the driver is slow at it */
                        break;
        }
        kit_hold(size / MIB + n / 2);
        return 0;
}
