/* SPDX-License-Identifier: Apache-2.0 */
/* The same, and the fabric objects are freed as well: what is left are mappings of UVM, of dups of them. They are made
 * on the other device, as libcuda makes them (docs/rm-abi.md 2.6), and where there is none on the one that has it. */
#define _GNU_SOURCE
#include "fabric.h"

#include <stdio.h>

enum {
        NR_DUP = 0x34,
        PIECE_MIB = 64,
};

struct mapper {
        struct kit_rm rm;
        CUuuid on; /* the device whose page tables have it */
        int uvm;
        const char *step; /* the last one tried, for who reads that it failed */
        int64_t status;
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

/* The device that a fabric object is for, with a context, so that UVM has it in the space. */
static void find_device(struct mapper *m)
{
        CUcontext context;
        CUdevice device = 0;

        if (cuDeviceGet(&device, 1) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
                device = 0;
        if (cuDeviceGetUuid(&m->on, device) != CUDA_SUCCESS)
                kit_cannot("no uuid");
}

static bool map_it(struct mapper *m)
{
        const uint64_t bytes = PIECE_MIB * MIB;

        m->step = "object";
        if (!fabric_take(&m->rm, FABRIC_OBJECT, bytes, KIT_MEMORY))
                return false;
        m->step = "dup";
        if (!dup_it(&m->rm, FABRIC_OBJECT, FABRIC_OBJECT + 1))
                return false;
        m->step = "range";
        if (!fabric_range(m->uvm, kit_map_at, bytes))
                return false;
        m->step = "mapping";
        m->status = fabric_map_status(m->uvm, &m->rm, &m->on, kit_map_at, bytes, FABRIC_OBJECT + 1);
        return m->status == 0;
}

int main(void)
{
        uint64_t most = 4 * kit_quota_mib(), got = 0;
        struct mapper m = { 0 };

        kit_start();
        m.uvm = kit_uvm();
        find_device(&m);
        kit_rm_open(&m.rm);
        while (got + PIECE_MIB <= most && kit_ok(kit_rm_memory(&m.rm, KIT_MEMORY, PIECE_MIB * MIB))) {
                bool is_mapped = map_it(&m);

                (void)kit_rm_free(&m.rm, KIT_SUBDEVICE, FABRIC_OBJECT + 1);
                (void)kit_rm_free(&m.rm, KIT_SUBDEVICE, FABRIC_OBJECT);
                (void)kit_rm_free(&m.rm, KIT_DEVICE, KIT_MEMORY);
                if (!is_mapped) {
                        printf("failed=%s status=0x%llx\n", m.step, (unsigned long long)m.status);
                        break;
                }
                kit_map_at += PIECE_MIB * MIB;
                got += PIECE_MIB;
        }
        if (got == 0)
                kit_cannot("no mapping of fabric memory here");
        kit_hold(got);
        return 0;
}
