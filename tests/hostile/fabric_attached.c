/* SPDX-License-Identifier: Apache-2.0 */
/* Memory attached to one fabric object, twice, and freed while it is attached: piece after piece. The driver takes it
 * off and back, so there is nothing to be had: what it believes to hold is what it never freed. */
#include "fabric.h"

int main(void)
{
        enum { PIECE_MIB = 64, ROUNDS = 64 };
        struct kit_rm rm;

        kit_rm_open(&rm);
        if (!fabric_take(&rm, FABRIC_OBJECT, 4096 * MIB, 0))
                kit_cannot("no fabric here");
        for (uint32_t i = 0; i < ROUNDS; i++) {
                uint64_t at = (uint64_t)i % 32 * PIECE_MIB * MIB;

                if (!kit_ok(kit_rm_memory(&rm, KIT_MEMORY, PIECE_MIB * MIB)))
                        break;
                (void)fabric_attach(&rm, FABRIC_OBJECT, KIT_MEMORY, at, PIECE_MIB * MIB);
                (void)fabric_attach(&rm, FABRIC_OBJECT, KIT_MEMORY, at, PIECE_MIB * MIB);
                (void)kit_rm_free(&rm, KIT_DEVICE, KIT_MEMORY);
                (void)fabric_detach(&rm, FABRIC_OBJECT, at);
        }
        kit_hold(kit_rm_take(&rm, KIT_MEMORY, PIECE_MIB, 4 * kit_quota_mib()));
        return 0;
}
