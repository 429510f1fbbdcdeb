/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory of a process that has ended while its child, a fork, goes on. */
#define _GNU_SOURCE
#include "kit.h"

#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
        uint64_t got = 0;

        for (int i = 0; i < 4; i++) {
                int pipes[2];
                uint64_t mib = 0;

                if (pipe(pipes) < 0)
                        kit_cannot("no pipe");
                if (fork() == 0) {
                        kit_start();
                        mib = kit_take_managed(64, kit_quota_mib() / 2);
                        if (fork() == 0) {
                                kit_wait_for_end(); /* has the descriptors, and what a fork copies of the mappings */
                        }
                        (void)!write(pipes[1], &mib, sizeof(mib));
                        _exit(0);
                }
                (void)close(pipes[1]);
                (void)!read(pipes[0], &mib, sizeof(mib));
                (void)wait(NULL);
                got += mib;
                kit_let_it_settle();
        }
        kit_start();
        got += kit_take_device(64, 4 * kit_quota_mib());
        kit_hold(got);
        return 0;
}
