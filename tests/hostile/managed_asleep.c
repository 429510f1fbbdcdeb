/* SPDX-License-Identifier: Apache-2.0 */
/* Fills its quota, is suspended for doing nothing, and maps managed memory while the other is away: what comes back is
 * not asked whether there is room for it. Again and again. */
#include "kit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        TIMES = 2,
        SLEEP_SECONDS = 4, /* it has --sleep-after 1s */
};

int main(void)
{
        uint64_t length = kit_quota_mib() / 2 * MIB, got;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        got = kit_take_device(16, kit_quota_mib());
        for (int i = 0; i < TIMES; i++, kit_map_at += 2 * length) {
                void *at = (void *)(uintptr_t)kit_map_at; /* NOLINT(performance-no-int-to-ptr) */

                (void)sleep(SLEEP_SECONDS);
                if (mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm, (off_t)kit_map_at) != at) {
                        printf("refused=%d\n", errno);
                        continue;
                }
                got += length / MIB;
                kit_migrate(uvm, kit_map_at, length);
        }
        kit_hold(got);
        return 0;
}
