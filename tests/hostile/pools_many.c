/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Semaphore pools of UVM: host memory of the kernel's, taken at once, by whoever makes the call: so no cgroup of the
 * tenant's counts it. "large=N": whether there was one of more than a tenant may have at once; "pools mib=N": how much
 * there was of others.
 */
#include "kit.h"

#include <stdio.h>
#include <sys/ioctl.h>

enum {
        SEMAPHORE_POOL = 68,
        STATUS_AT = 9240, /* from 550 on */
        PIECE_MIB = 16,   /* the largest that a tenant may have */
        MOST_MIB = 4096,
};

static bool make_pool(int uvm, uint64_t base, uint64_t mib)
{
        static unsigned char block[STATUS_AT + 8];

        kit_put64(block, 0, base);
        kit_put64(block, 8, mib * MIB);
        kit_put64(block, STATUS_AT - 8, 0); /* mapped on no device by itself */
        kit_put32(block, STATUS_AT, 0xffffffffu);
        return ioctl(uvm, SEMAPHORE_POOL, block) == 0 && kit_get32(block, STATUS_AT) == 0;
}

int main(void)
{
        uint64_t mib = 0;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        printf("large=%d\n", make_pool(uvm, kit_map_at + MOST_MIB * MIB, PIECE_MIB + 2));
        while (mib < MOST_MIB && make_pool(uvm, kit_map_at + mib * MIB, PIECE_MIB))
                mib += PIECE_MIB;
        printf("pools mib=%llu\n", (unsigned long long)mib);
        kit_hold(0);
        return 0;
}
