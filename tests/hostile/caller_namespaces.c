/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from namespaces of one's own: the caller is process 1 there, and mounts and users are others. */
#define _GNU_SOURCE
#include "kit.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
        uint64_t *got = mmap(NULL, sizeof(*got), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int done[2];
        char byte;

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (pipe(done) < 0 || (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET) < 0 &&
                               unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET) < 0))
                kit_cannot("no namespaces here");
        if (fork() == 0) {
                struct kit_rm rm;

                if (getpid() == 1 && kit_rm_try_open(&rm))
                        *got = kit_rm_take(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib());
                (void)!write(done[1], "", 1);
                kit_wait_for_end();
        }
        (void)!read(done[0], &byte, 1);
        kit_hold(*got);
        return 0;
}
