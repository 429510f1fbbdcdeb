/* SPDX-License-Identifier: Apache-2.0 */
/* Channels, of which a device has only so many numbers: another program that finds none left cannot make a context.
 * "channels=N": how many there are, in groups of 8. */
#include "kit.h"

#include <stdio.h>

enum {
        CLASS_GROUP = 0xa06c,
        CLASS_CHANNEL = 0xc86f,
        COPY = 0x0b,
        OF_GROUP = 8,
        MOST = 4096,
        FIRST = KIT_MEMORY,
};

int main(void)
{
        unsigned char params[512] = { 0 };
        uint32_t n = 0, group = 0;
        struct kit_rm rm;

        kit_rm_open(&rm);
        while (n < MOST) {
                kit_put32(params, 12, COPY);
                kit_put32(params, 128, 0);
                if (n % OF_GROUP == 0) {
                        group = FIRST + n * 2;
                        if (!kit_ok(kit_rm_alloc(&rm, KIT_DEVICE, group, CLASS_GROUP, params, 32)))
                                break;
                }
                kit_put32(params, 12, 0);
                kit_put32(params, 128, COPY);
                if (!kit_ok(kit_rm_alloc(&rm, group, FIRST + MOST * 2 + n, CLASS_CHANNEL, params, sizeof(params))))
                        break;
                n++;
        }
        printf("channels=%u\n", n);
        kit_hold(0);
        return 0;
}
