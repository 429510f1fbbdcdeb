/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of managed ranges with room between them, and mappings of an ordinary file that seem to lie over all of
 * them: whoever looks whether those became managed memory has to ask about each gap, again and again, and meanwhile
 * about nothing else. */
#define _GNU_SOURCE
#include "kit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

enum {
        RANGES = 6000,
        WIDE = 64,
};

#define BASE 0x2e0000000000u
#define APART 65536u
#define PAGE 4096u

int main(void)
{
        uint64_t got = 0;
        int uvm, file, error = 0, n = 0;

        kit_start();
        uvm = kit_uvm();
        file = memfd_create("wide", 0);
        for (uint64_t i = 0; i < RANGES; i++) {
                void *at = (void *)(uintptr_t)(BASE + i * APART);

                n += mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, uvm,
                          (off_t)(uintptr_t)at) == at;
        }
        printf("ranges=%d\n", n);
        for (int i = 0; i < WIDE && file >= 0; i++)
                if (mmap(NULL, RANGES * (size_t)APART, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)BASE) ==
                    MAP_FAILED)
                        error = errno;
        printf("wide errno=%d\n", error);
        for (int i = 0; i < 4 && got < 2 * kit_quota_mib(); i++) {
                got += kit_take_managed(64, 2 * kit_quota_mib());
                kit_let_it_settle();
        }
        kit_hold(got);
        return 0;
}
