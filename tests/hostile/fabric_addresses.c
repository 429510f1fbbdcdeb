/* SPDX-License-Identifier: Apache-2.0 */
/* All addresses of the fabric, so that the neighbours' large allocations fail: they take no memory. */
#include "fabric.h"

int main(void)
{
        enum { PIECE_MIB = 4096, PIECES_MAX = 256 };
        struct kit_rm rm;
        uint32_t n = 0;

        kit_rm_open(&rm);
        while (n < PIECES_MAX && fabric_take(&rm, FABRIC_OBJECT + n, PIECE_MIB * MIB, 0))
                n++;
        if (!n)
                kit_cannot("no fabric here");
        kit_hold((uint64_t)n * PIECE_MIB);
        return 0;
}
