/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of UVM that are mapped with nothing behind them: only their page tables take memory, 17 MiB for 128 GiB. */
#include "kit.h"

int main(void)
{
        enum { MAP_SPARSE = 74, CREATE_EXTERNAL = 73 };
        const uint64_t piece = 128ull << 30;
        uint64_t base = 0x200000000000ull, got = 520, most = kit_quota_mib() + 128; /* a context */
        int uvm;

        kit_start();
        uvm = kit_uvm();
        for (; got < most; got += 17, base += piece)
                if (!kit_ok(kit_uvm_range(uvm, CREATE_EXTERNAL, base, piece)) ||
                    !kit_ok(kit_uvm_range(uvm, MAP_SPARSE, base, piece)))
                        break;
        kit_hold(got);
        return 0;
}
