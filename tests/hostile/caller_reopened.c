/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory of clients on files that were opened again through /proc/self/fd: of a descriptor that is only a path
 * (O_PATH), and of a control file that has a client. Each has clients of its own, which take half a quota. Calls on the
 * path itself come to nothing, and a client is not known on the file that was opened again. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
        EACH = 4, /* of either kind */
};

static int reopen(int fd)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return open(path, O_RDWR | O_CLOEXEC);
}

/* Whether the first client can be used on a file opened again, or memory be had on a mere path. */
static unsigned int wrong_files(const struct kit_rm *rm)
{
        const int fds[] = { reopen(rm->ctl), open("/dev/nvidiactl", O_PATH | O_CLOEXEC) };
        unsigned int n = 0;

        for (unsigned int i = 0; i < 2; i++) {
                struct kit_rm other = { fds[i], rm->node, rm->client };

                n += kit_ok(kit_rm_memory(&other, KIT_MEMORY + 0x1000 + i, 4 * MIB));
        }
        return n;
}

int main(void)
{
        const uint64_t half = kit_quota_mib() / 2;
        uint64_t got = 0;
        struct kit_rm rm;
        int path, again;

        kit_rm_open(&rm);
        path = open("/dev/nvidiactl", O_PATH | O_CLOEXEC);
        again = path < 0 ? -1 : reopen(path);
        if (again < 0)
                kit_cannot("a node that cannot be opened again");
        printf("wrong=%u\n", wrong_files(&rm));
        for (int i = 0; i < 2 * EACH; i++) {
                struct kit_rm next;

                if (!kit_rm_open_on(&next, i % 2 ? reopen(rm.ctl) : reopen(path)))
                        break;
                got += kit_rm_take(&next, KIT_MEMORY, 16, half);
        }
        kit_hold(got);
        return 0;
}
