/* SPDX-License-Identifier: Apache-2.0 */
/* The same, and the fabric objects are freed as well: what is left are mappings of UVM, of dups of them. */
#define _GNU_SOURCE
#include "fabric.h"

#include <string.h>
#include <sys/ioctl.h>

enum {
        NR_DUP = 0x34,
        UVM_MAP_EXTERNAL = 33,
        UVM_CREATE_EXTERNAL = 73,
        MAP_SIZE = 9264, /* release 580 */
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

static bool map_it(int uvm, const struct kit_rm *rm, const CUuuid *uuid, uint64_t base, uint32_t object)
{
        static unsigned char block[MAP_SIZE];
        unsigned char range[24] = { 0 };

        kit_put64(range, 0, base);
        kit_put64(range, 8, PIECE_MIB * MIB);
        if (ioctl(uvm, UVM_CREATE_EXTERNAL, range) < 0 || kit_get32(range, 16))
                return false;
        memset(block, 0, sizeof(block));
        kit_put64(block, 0, base);
        kit_put64(block, 8, PIECE_MIB * MIB);
        memcpy(block + 24, uuid, 16);
        kit_put32(block, 40, 1);
        kit_put64(block, MAP_SIZE - 24, 1);
        kit_put32(block, MAP_SIZE - 16, (uint32_t)rm->ctl);
        kit_put32(block, MAP_SIZE - 12, rm->client);
        kit_put32(block, MAP_SIZE - 8, object);
        return ioctl(uvm, UVM_MAP_EXTERNAL, block) == 0 && kit_get32(block, MAP_SIZE - 4) == 0;
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
                                 map_it(uvm, &rm, &uuid, kit_map_at, FABRIC_OBJECT + 1);

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
