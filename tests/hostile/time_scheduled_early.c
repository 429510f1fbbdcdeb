/* SPDX-License-Identifier: Apache-2.0 */
/* Its groups are scheduled before they have a channel, and again with each that comes. On an H200 (580.159.04) libcuda
 * makes no context then, with CUDA_ERROR_ILLEGAL_STATE and without a daemon too; so it is tried with the first alone,
 * and where that is refused as well, there is no attack to stop. */
#include "kit_time.h"

static bool is_taken(void)
{
        CUcontext context;
        CUdevice device;

        return cuDeviceGet(&device, 0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS;
}

int main(void)
{
        time_tricks.says = 9;
        time_tricks.schedules_old = true;
        time_tricks.schedules_each = true;
        if (cuInit(0) != CUDA_SUCCESS)
                kit_cannot("no device");
        if (!is_taken()) {
                time_tricks.schedules_each = false;
                if (!is_taken())
                        kit_cannot("libcuda makes no context of groups that are scheduled early");
        }
        time_start();
        time_compute();
        return 0;
}
