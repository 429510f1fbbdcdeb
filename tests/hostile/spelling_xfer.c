/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by requests inside requests (XFER), with changing types: the driver unwraps one level. */
#include "kit.h"

#include <sys/ioctl.h>

static int spelt(int fd, unsigned long request, void *block)
{
        static unsigned long turn;
        unsigned char outer[16] = { 0 };

        kit_put32(outer, 0, (uint32_t)request & 0xff);
        kit_put32(outer, 4, (uint32_t)request >> 16 & 0x3fff);
        kit_put64(outer, 8, (uintptr_t)block);
        return ioctl(fd, 16ul << 16 | turn++ % 256 << 8 | 0xd3, outer);
}

int main(void)
{
        struct kit_rm rm;

        kit_rm_open(&rm);
        kit_ioctl = spelt;
        kit_hold(kit_rm_take(&rm, KIT_MEMORY, 4, 2 * kit_quota_mib()));
        return 0;
}
