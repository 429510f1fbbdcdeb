/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by requests of every type byte and direction, and with an upper half: the driver looks at none of
 * them. */
#include "kit.h"

#include <sys/ioctl.h>

static int spelt(int fd, unsigned long request, void *block)
{
        static unsigned long turn;

        turn++;
        request = (request & 0x3fff00ff) | turn % 256 << 8 | turn % 4 << 30 | turn << 40;
        return ioctl(fd, request, block);
}

int main(void)
{
        struct kit_rm rm;

        kit_rm_open(&rm);
        kit_ioctl = spelt;
        kit_hold(kit_rm_take(&rm, KIT_MEMORY, 4, 2 * kit_quota_mib()));
        return 0;
}
