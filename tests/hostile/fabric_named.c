/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by name: imported although nobody exported it, exported to whoever knows the name; and fabric memory over
 * what is another client's. "holding" is how many of these were granted. */
#include "fabric.h"

#include <string.h>

enum {
        EXPORT_BY_NAME = 0xe0,
        IMPORT_BY_NAME = 0xf9,
        IMPORTED = 0xfb,
        PIECE_MIB = 64,
};

int main(void)
{
        unsigned char params[256] = { 0 };
        struct kit_rm rm, other;
        uint64_t granted = 0;

        kit_rm_open(&rm);
        kit_rm_open(&other);
        memset(params + 4, 0xa5, 32);
        granted += kit_ok(kit_rm_alloc(&rm, rm.client, FABRIC_OBJECT, IMPORT_BY_NAME, params, 64));
        granted += kit_ok(kit_rm_alloc(&rm, rm.client, FABRIC_OBJECT + 1, IMPORTED, params, 32));
        memset(params, 0, sizeof(params));
        granted += kit_ok(kit_rm_alloc(&rm, rm.client, FABRIC_OBJECT + 2, EXPORT_BY_NAME, params, 244));
        if (kit_ok(kit_rm_memory(&other, KIT_MEMORY + 7, PIECE_MIB * MIB))) {
                granted += fabric_take(&rm, FABRIC_OBJECT + 3, PIECE_MIB * MIB, KIT_MEMORY + 7);
                if (fabric_take(&rm, FABRIC_OBJECT + 4, PIECE_MIB * MIB, 0))
                        granted += fabric_attach(&rm, FABRIC_OBJECT + 4, KIT_MEMORY + 7, 0, PIECE_MIB * MIB);
        }
        kit_hold(granted);
        return 0;
}
