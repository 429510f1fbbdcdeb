/* SPDX-License-Identifier: Apache-2.0 */
/* Memory mapped on two devices at one address, unmapped from the second, and its handle freed: the first one's page
 * tables are all that keeps it. */
#define _GNU_SOURCE
#include "fabric.h"

int main(void)
{
        enum { PIECE_MIB = 64 };
        uint64_t most = 4 * kit_quota_mib(), got = 0;
        CUuuid first, second;
        CUcontext context;
        CUdevice device;
        struct kit_rm rm;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        if (cuDeviceGetUuid(&first, 0) != CUDA_SUCCESS || cuDeviceGet(&device, 1) != CUDA_SUCCESS ||
            cuDeviceGetUuid(&second, device) != CUDA_SUCCESS ||
            cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
                kit_cannot("no second device");
        kit_rm_open(&rm);
        while (got + PIECE_MIB <= most && kit_ok(kit_rm_memory(&rm, KIT_MEMORY, PIECE_MIB * MIB))) {
                bool is_mapped = fabric_range(uvm, kit_map_at, PIECE_MIB * MIB) &&
                                 fabric_map(uvm, &rm, &first, kit_map_at, PIECE_MIB * MIB, KIT_MEMORY);

                if (is_mapped && fabric_map(uvm, &rm, &second, kit_map_at, PIECE_MIB * MIB, KIT_MEMORY))
                        (void)fabric_unmap(uvm, &second, kit_map_at, PIECE_MIB * MIB);
                (void)kit_rm_free(&rm, KIT_DEVICE, KIT_MEMORY);
                if (!is_mapped && got == 0)
                        kit_cannot("no mapping here");
                if (!is_mapped)
                        break;
                kit_map_at += PIECE_MIB * MIB;
                got += PIECE_MIB;
        }
        kit_hold(got);
        return 0;
}
