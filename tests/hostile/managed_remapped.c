/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory without mmap: mremap moves a mapping of UVM, which ends its range, and remap_file_pages then has the
 * kernel map the file anew at the place where the mapping is now, at the offset that UVM wants. The first place has
 * nothing any more, so its charge comes back.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <stdio.h>
#include <sys/mman.h>

enum {
        PIECE = 256,
};

int main(void)
{
        uint64_t got = 0, most = 2 * kit_quota_mib(), length = PIECE * MIB, to = 0x500000000000ull;
        unsigned int n_refused = 0;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        while (got < most && n_refused < 3) {
                uint64_t from = kit_map_at;

                if (kit_map_managed(uvm, PIECE, PIECE) == 0 ||
                    mremap((void *)from, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to) == MAP_FAILED ||
                    remap_file_pages((void *)to, length, 0, to / 4096, 0) < 0) {
                        n_refused++;
                } else {
                        kit_migrate(uvm, to, length);
                        got += PIECE;
                }
                to += 2 * length;
                kit_let_it_settle();
        }
        printf("remapped mib=%llu\n", (unsigned long long)got);
        got += kit_take_managed(64, 2 * kit_quota_mib());
        kit_hold(got);
        return 0;
}
