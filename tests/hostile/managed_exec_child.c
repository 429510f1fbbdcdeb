/* SPDX-License-Identifier: Apache-2.0 */
/* A child that shares the address space maps managed memory and then executes another program: the charge is the
 * child's, whose new address space has no range, while the parent keeps the memory. */
#define _GNU_SOURCE
#include "kit.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t got;

static int child(void *unused)
{
        (void)unused;
        kit_join();
        got += kit_take_managed(64, kit_quota_mib());
        (void)execlp("sleep", "sleep", "30", (char *)NULL);
        return 1;
}

int main(void)
{
        enum { STACK = 1 << 20, CHILDREN = 4 };

        kit_start();
        for (int i = 0; i < CHILDREN; i++) {
                char *stack = malloc(STACK);

                if (!stack || clone(child, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL) < 0)
                        kit_cannot("no clone");
                kit_let_it_settle();
        }
        got += kit_take_device(64, 4 * kit_quota_mib());
        kit_hold(got);
        return 0;
}
