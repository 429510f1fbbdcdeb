/* SPDX-License-Identifier: Apache-2.0 */
/* What the attacks by fabric memory share: class 0xf8 and its controls (docs/rm-abi.md 2.6). */
#pragma once

#include "kit.h"

enum {
        FABRIC = 0xf8,
        FABRIC_ATTACH = 0xf80103,
        FABRIC_DETACH = 0xf80104,
        FABRIC_OBJECT = KIT_MEMORY + 0x1000, /* handles of fabric objects from here on */
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
