/* SPDX-License-Identifier: Apache-2.0 */
/* Channels: for each the driver takes 64 KiB, in no call's size. A device has fewer channels than that takes. */
#include "kit.h"

int main(void)
{
        enum { CLASS_GROUP = 0xa06c, CLASS_CHANNEL = 0xc86f, COPY = 0x0b, GROUP = KIT_MEMORY, SIMULATED_MIB = 1024 };
        unsigned char params[512] = { 0 };
        uint64_t n_max = kit_quota_mib() * 20, n = 0;
        struct kit_rm rm;

        if (kit_quota_mib() > SIMULATED_MIB)
                kit_cannot("more channels than a device has");
        kit_rm_open(&rm);
        kit_put32(params, 12, COPY);
        if (!kit_ok(kit_rm_alloc(&rm, KIT_DEVICE, GROUP, CLASS_GROUP, params, 32)))
                kit_cannot("no group");
        kit_put32(params, 12, 0);
        kit_put32(params, 128, COPY);
        while (n < n_max &&
               kit_ok(kit_rm_alloc(&rm, GROUP, GROUP + 1 + (uint32_t)n, CLASS_CHANNEL, params, sizeof(params))))
                n++;
        kit_hold(n / 16);
        return 0;
}
