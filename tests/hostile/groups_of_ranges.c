/* SPDX-License-Identifier: Apache-2.0 */
/* Range groups of UVM: each is memory of the kernel that no figure of the device and no control group shows. "groups"
 * is what there are in one VA space, "again" what there are after half of them have ended. */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum {
        CREATE = 23,
        DESTROY = 24,
        STATUS_AT = 8,
        MOST = 40000,
};

static bool group_call(int uvm, unsigned long number, uint64_t *id)
{
        unsigned char block[16] = { 0 };

        kit_put64(block, 0, *id);
        kit_put32(block, STATUS_AT, 0xffffffffu);
        if (ioctl(uvm, number, block) != 0 || kit_get32(block, STATUS_AT) != 0)
                return false;
        *id = kit_get32(block, 0) | (uint64_t)kit_get32(block, 4) << 32;
        return true;
}

int main(void)
{
        static uint64_t ids[MOST];
        unsigned int n = 0, again = 0;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        while (n < MOST && group_call(uvm, CREATE, &ids[n]))
                n++;
        for (unsigned int i = 0; i < n / 2; i++)
                (void)group_call(uvm, DESTROY, &ids[i]);
        while (again < MOST && group_call(uvm, CREATE, &ids[again]))
                again++;
        printf("groups=%u again=%u\n", n, n - n / 2 + again);
        kit_hold(0);
        return 0;
}
