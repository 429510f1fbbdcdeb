/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory that a child mapped on the parent's descriptor before it ended: the driver keeps such ranges until the
 * open file is closed (it cleans up zombies only when asked). */
#define _GNU_SOURCE
#include "kit.h"

#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
        uint64_t got = 0;
        int uvm;

        kit_start();
        uvm = kit_uvm();
        for (int i = 0; i < 4; i++) {
                int pipes[2];
                uint64_t mib = 0;

                if (pipe(pipes) < 0)
                        kit_cannot("no pipe");
                if (fork() == 0) {
                        /* The library refuses a forked context; what it does for a mapping is done by hand. */
                        mib = kit_map_managed(uvm, 64, kit_quota_mib() / 2);
                        (void)!write(pipes[1], &mib, sizeof(mib));
                        _exit(0);
                }
                (void)close(pipes[1]);
                (void)!read(pipes[0], &mib, sizeof(mib));
                (void)wait(NULL);
                kit_map_at += mib * MIB;
                got += mib;
                kit_let_it_settle();
        }
        got += kit_take_device(64, 4 * kit_quota_mib());
        kit_hold(got);
        return 0;
}
