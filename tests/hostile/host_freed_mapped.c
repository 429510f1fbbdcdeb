/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of the driver's that is mapped, and then freed: the mapping keeps it, pinned, and it is charged for as
 * long. What counts is the host's memory, so the quota here is that of --host-mem: the same as of the device. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        CLASS_HOST = 0x3e,
        PIECE_MIB = 64,
};

static bool host_alloc(const struct kit_rm *rm, uint32_t handle, uint64_t size)
{
        unsigned char params[128] = { 0 };

        kit_put32(params, 0, rm->client);
        kit_put32(params, 8, 0xc001); /* as libcuda does */
        kit_put32(params, 24, 0x2a000000 | 0x10000000);
        kit_put64(params, 64, size);
        return kit_ok(kit_rm_alloc(rm, KIT_DEVICE, handle, CLASS_HOST, params, sizeof(params)));
}

/* Mapped, and its pages are there. */
static bool map(const struct kit_rm *rm, uint32_t handle, uint64_t size)
{
        int fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
        bool is_mapped = false;
        void *at;

        if (fd >= 0 && kit_ok(kit_rm_map_host(rm, handle, size, fd))) {
                at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                is_mapped = at != MAP_FAILED;
                if (is_mapped)
                        memset(at, 1, size);
        }
        if (fd >= 0)
                (void)close(fd);
        return is_mapped;
}

int main(void)
{
        uint64_t got = 0, most = 2 * kit_quota_mib();
        uint32_t handle = KIT_MEMORY;
        struct kit_rm rm;

        kit_rm_open(&rm);
        while (got < most && host_alloc(&rm, handle, PIECE_MIB * MIB) && map(&rm, handle, PIECE_MIB * MIB)) {
                got += PIECE_MIB;
                (void)kit_rm_free(&rm, KIT_DEVICE, handle++);
        }
        kit_hold(got);
        return 0;
}
