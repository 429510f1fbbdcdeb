/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of many processes at once, as many as come: what the driver takes for each beside the memory it is asked
 * for must not add up past the quota. */
#include "kit.h"

#include <unistd.h>

int main(void)
{
        enum { CONTEXT_MIB = 527 };
        int n = (int)(kit_quota_mib() / CONTEXT_MIB) + 8, there[2];
        uint64_t got = 0;
        char made;

        if (pipe(there) < 0)
                kit_cannot("no pipe");
        for (int i = 0; i < n; i++) {
                CUcontext context;
                CUdevice device;

                if (fork() != 0)
                        continue;
                made = cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
                       cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS;
                (void)!write(there[1], &made, 1);
                kit_wait_for_end();
        }
        for (int i = 0; i < n && read(there[0], &made, 1) == 1; i++)
                got += made ? CONTEXT_MIB : 0;
        kit_hold(got);
        _exit(0);
}
