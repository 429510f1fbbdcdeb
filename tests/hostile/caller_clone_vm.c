/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by calls of a process that shares memory and descriptors with its parent and is no thread of it
 * (CLONE_VM | CLONE_FILES). */
#define _GNU_SOURCE
#include "kit.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static _Alignas(64) char stack[256 * 1024];
static struct kit_rm rm;
static uint64_t got;

static int sibling(void *unused)
{
        (void)unused;
        got = kit_rm_take(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib());
        return 0;
}

int main(void)
{
        pid_t child;

        kit_rm_open(&rm);
        child = clone(sibling, stack + sizeof(stack), CLONE_VM | CLONE_FILES | SIGCHLD, NULL);
        if (child < 0 || waitpid(child, NULL, 0) != child)
                kit_cannot("no child");
        kit_hold(got);
        return 0;
}
