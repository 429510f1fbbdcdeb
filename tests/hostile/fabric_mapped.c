/* SPDX-License-Identifier: Apache-2.0 */
/* The same, and the fabric objects are freed as well: what is left are mappings of UVM, of dups of them. */
#define _GNU_SOURCE
#include "fabric.h"

enum {
        NR_DUP = 0x34,
        PIECE_MIB = 64,
};

static bool dup_it(const struct kit_rm *rm, uint32_t from, uint32_t to)
{
        unsigned char block[28] = { 0 };

        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, KIT_SUBDEVICE);
        kit_put32(block, 8, to);
        kit_put32(block, 12, rm->client);
        kit_put32(block, 16, from);
        kit_put32(block, 24, 0xffffffffu);
        return ioctl(rm->ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_DUP, sizeof(block)), block) == 0 &&
               kit_get32(block, 24) == 0;
}

int main(void)
{
        uint64_t most = 4 * kit_quota_mib(), got = 0;
        struct kit_rm rm;
        CUuuid uuid;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        if (cuDeviceGetUuid(&uuid, 0) != CUDA_SUCCESS)
                kit_cannot("no uuid");
        kit_rm_open(&rm);
        while (got + PIECE_MIB <= most && kit_ok(kit_rm_memory(&rm, KIT_MEMORY, PIECE_MIB * MIB))) {
                bool is_mapped = fabric_take(&rm, FABRIC_OBJECT, PIECE_MIB * MIB, KIT_MEMORY) &&
                                 dup_it(&rm, FABRIC_OBJECT, FABRIC_OBJECT + 1) &&
                                 fabric_range(uvm, kit_map_at, PIECE_MIB * MIB) &&
                                 fabric_map(uvm, &rm, &uuid, kit_map_at, PIECE_MIB * MIB, FABRIC_OBJECT + 1);

                (void)kit_rm_free(&rm, KIT_SUBDEVICE, FABRIC_OBJECT + 1);
                (void)kit_rm_free(&rm, KIT_SUBDEVICE, FABRIC_OBJECT);
                (void)kit_rm_free(&rm, KIT_DEVICE, KIT_MEMORY);
                if (!is_mapped && got == 0)
                        kit_cannot("no mapping of fabric memory here");
                if (!is_mapped)
                        break;
                kit_map_at += PIECE_MIB * MIB;
                got += PIECE_MIB;
        }
        kit_hold(got);
        return 0;
}
