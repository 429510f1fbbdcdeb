/* SPDX-License-Identifier: Apache-2.0 */
/* What the attacks by fabric memory share: class 0xf8 and its controls (docs/rm-abi.md 2.6). */
#pragma once

#include "kit.h"

#include <string.h>
#include <sys/ioctl.h>

enum {
        FABRIC = 0xf8,
        FABRIC_ATTACH = 0xf80103,
        FABRIC_DETACH = 0xf80104,
        FABRIC_OBJECT = KIT_MEMORY + 0x1000, /* handles of fabric objects from here on */

        UVM_MAP_EXTERNAL = 33,
        UVM_UNMAP_EXTERNAL = 66,
        UVM_CREATE_EXTERNAL = 73,
        MAP_SIZE = 9264, /* release 580 */
};

#define FABRIC_PAGE (2 * MIB)

/* memory 0: of the flexible kind. */
static inline bool fabric_take(const struct kit_rm *rm, uint32_t object, uint64_t bytes, uint32_t memory)
{
        unsigned char params[48] = { 0 };

        kit_put64(params, 0, FABRIC_PAGE);
        kit_put64(params, 8, bytes);
        kit_put64(params, 16, FABRIC_PAGE);
        kit_put32(params, 24, memory == 0);
        kit_put32(params, 40, memory);
        return kit_ok(kit_rm_alloc(rm, KIT_SUBDEVICE, object, FABRIC, params, sizeof(params)));
}

static inline bool fabric_attach(const struct kit_rm *rm, uint32_t object, uint32_t memory, uint64_t at, uint64_t bytes)
{
        unsigned char params[2064] = { 0 };

        kit_put32(params, 0, memory);
        kit_put64(params, 8, at);
        kit_put64(params, 24, bytes);
        kit_put32(params, 2048, 1);
        return kit_ok(kit_rm_control(rm, object, FABRIC_ATTACH, params, sizeof(params)));
}

static inline bool fabric_detach(const struct kit_rm *rm, uint32_t object, uint64_t at)
{
        unsigned char params[528] = { 0 };

        kit_put64(params, 0, at);
        kit_put32(params, 512, 1);
        return kit_ok(kit_rm_control(rm, object, FABRIC_DETACH, params, sizeof(params)));
}

/* A range of the space of `uvm` for RM memory. */
static inline bool fabric_range(int uvm, uint64_t base, uint64_t bytes)
{
        unsigned char range[24] = { 0 };

        kit_put64(range, 0, base);
        kit_put64(range, 8, bytes);
        return ioctl(uvm, UVM_CREATE_EXTERNAL, range) == 0 && !kit_get32(range, 16);
}

/* The object, mapped there on one device: the driver's status, or -1 where the call itself fails. */
static inline int64_t fabric_map_status(int uvm, const struct kit_rm *rm, const CUuuid *uuid, uint64_t base,
                                        uint64_t bytes, uint32_t object)
{
        static unsigned char block[MAP_SIZE];

        memset(block, 0, sizeof(block));
        kit_put64(block, 0, base);
        kit_put64(block, 8, bytes);
        memcpy(block + 24, uuid, 16);
        kit_put32(block, 40, 1);
        kit_put64(block, MAP_SIZE - 24, 1);
        kit_put32(block, MAP_SIZE - 16, (uint32_t)rm->ctl);
        kit_put32(block, MAP_SIZE - 12, rm->client);
        kit_put32(block, MAP_SIZE - 8, object);
        return ioctl(uvm, UVM_MAP_EXTERNAL, block) == 0 ? (int64_t)kit_get32(block, MAP_SIZE - 4) : -1;
}

static inline bool fabric_map(int uvm, const struct kit_rm *rm, const CUuuid *uuid, uint64_t base, uint64_t bytes,
                              uint32_t object)
{
        return fabric_map_status(uvm, rm, uuid, base, bytes, object) == 0;
}

static inline bool fabric_unmap(int uvm, const CUuuid *uuid, uint64_t base, uint64_t bytes)
{
        unsigned char block[40] = { 0 };

        kit_put64(block, 0, base);
        kit_put64(block, 8, bytes);
        memcpy(block + 16, uuid, 16);
        return ioctl(uvm, UVM_UNMAP_EXTERNAL, block) == 0 && kit_get32(block, 32) == 0;
}
