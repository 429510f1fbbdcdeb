/* SPDX-License-Identifier: Apache-2.0 */
/* Memory whose own handle is freed, and which only fabric objects keep: piece after piece, until the device is full. */
#include "fabric.h"

int main(void)
{
        enum { PIECE_MIB = 64, PIECES_MAX = 1024 };
        uint64_t most = 4 * kit_quota_mib(), got = 0;
        struct kit_rm rm;

        kit_rm_open(&rm);
        for (uint32_t i = 0; i < PIECES_MAX && got + PIECE_MIB <= most; i++) {
                if (!kit_ok(kit_rm_memory(&rm, KIT_MEMORY, PIECE_MIB * MIB)))
                        break;
                if (!fabric_take(&rm, FABRIC_OBJECT + i, PIECE_MIB * MIB, KIT_MEMORY)) {
                        if (i == 0)
                                kit_cannot("no fabric here");
                        (void)kit_rm_free(&rm, KIT_DEVICE, KIT_MEMORY);
                        break;
                }
                (void)kit_rm_free(&rm, KIT_DEVICE, KIT_MEMORY);
                got += PIECE_MIB;
        }
        kit_hold(got);
        return 0;
}
