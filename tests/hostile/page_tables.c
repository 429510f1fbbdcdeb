/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations of addresses: for each the driver takes page tables at once, 1/512 of its size, in no call's size. */
#include "kit.h"

int main(void)
{
        enum { CLASS_SPACE = 0x90f1, SPACE = KIT_MEMORY, RESERVATION, VIRTUAL = 0x80000, SMALL = 1 << 23 };
        const uint64_t piece = 64ull << 30;
        uint64_t got = 0, most = 2 * kit_quota_mib();
        unsigned char params[128] = { 0 };
        struct kit_rm rm;

        kit_rm_open(&rm);
        if (!kit_ok(kit_rm_alloc(&rm, KIT_DEVICE, SPACE, CLASS_SPACE, params, sizeof(params))))
                kit_cannot("no address space");
        for (uint32_t i = 0; got < most; i++, got += piece / 512 / MIB)
                if (!kit_ok(kit_rm_reserve(&rm, RESERVATION + i, SPACE, piece, VIRTUAL, SMALL)))
                        break;
        kit_hold(got);
        return 0;
}
