/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses of UVM into which nothing is mapped: each is kilobytes of the kernel's memory that no figure of
 * the device and no control group shows. "ranges" is what there are in one VA space, "again" what there are after some
 * of them have ended. They go downward, by which the simulator is quick. */
#include "kit.h"

#include <stdio.h>
#include <sys/ioctl.h>

enum {
        CREATE_RANGE = 73,
        FREE_RANGE = 34,
        STATUS_AT = 16, /* of both, up to 580 */
        SIZE = 65536,
        MOST = 90000,
        END = 1000,
};

static bool range_call(int uvm, unsigned long number, uint64_t i)
{
        unsigned char block[24] = { 0 };

        kit_put64(block, 0, kit_map_at + (2 * MOST - i) * SIZE);
        kit_put64(block, 8, SIZE);
        kit_put32(block, STATUS_AT, 0xffffffffu);
        return ioctl(uvm, number, block) == 0 && kit_get32(block, STATUS_AT) == 0;
}

int main(void)
{
        uint64_t n = 0, ended = 0, again = 0;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        while (n < MOST && range_call(uvm, CREATE_RANGE, n))
                n++;
        while (ended < END && range_call(uvm, FREE_RANGE, n - 1 - ended))
                ended++;
        while (again < MOST && range_call(uvm, CREATE_RANGE, n - ended + again))
                again++;
        printf("ranges=%llu again=%llu\n", (unsigned long long)n, (unsigned long long)(n - ended + again));
        kit_hold(0);
        return 0;
}
