/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory behind thousands of small ranges: a reader of /proc/PID/maps that stops at some line takes what lies
 * higher for unmapped. */
#include "kit.h"

enum {
        SMALL = 6000,
        SMALL_KIB = 64,
};

int main(void)
{
        uint64_t got = 0;
        CUdeviceptr at;

        kit_start();
        for (int i = 0; i < SMALL && cuMemAllocManaged(&at, SMALL_KIB << 10, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS; i++)
                got += SMALL_KIB;
        got /= 1024;
        for (int i = 0; i < 4 && got < 2 * kit_quota_mib(); i++) { /* by then it is past the quota for good */
                got += kit_take_managed(64, 2 * kit_quota_mib());
                kit_let_it_settle();
        }
        kit_hold(got);
        return 0;
}
