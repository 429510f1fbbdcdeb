/* SPDX-License-Identifier: Apache-2.0 */
/* Address spaces: for each the driver takes up to 64 KiB, in no call's size. */
#include "kit.h"

int main(void)
{
        enum { CLASS_SPACE = 0x90f1, SIMULATED_MIB = 1024 };
        unsigned char params[56] = { 0 };
        uint64_t n_max = kit_quota_mib() * 20, n = 0;
        struct kit_rm rm;

        if (kit_quota_mib() > SIMULATED_MIB)
                kit_cannot("a storm of objects, which nobody makes on a device");
        kit_rm_open(&rm);
        for (; n < n_max; n++) {
                kit_put64(params, 8, 0);
                if (!kit_ok(kit_rm_alloc(&rm, KIT_DEVICE, KIT_MEMORY + (uint32_t)n, CLASS_SPACE, params, 56)))
                        break;
        }
        kit_hold(n / 16);
        return 0;
}
