/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory of which all but one page is unmapped, again and again: the driver keeps what is left, and the charge
 * must, too. */
#define _GNU_SOURCE
#include "kit.h"

#include <sys/mman.h>

int main(void)
{
        enum { ROUNDS = 8 };
        uint64_t got = 0;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        for (int i = 0; i < ROUNDS; i++) {
                uint64_t base = kit_map_at, mib = kit_map_managed(uvm, 512, 512);

                if (!mib)
                        continue;
                (void)munmap((void *)base, 256 * MIB); /* the lower half goes, the upper one stays */
                got += 256;
                kit_let_it_settle();
        }
        got += kit_take_device(64, 4 * kit_quota_mib());
        kit_hold(got);
        return 0;
}
