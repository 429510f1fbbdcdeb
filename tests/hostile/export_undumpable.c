/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor a process has that may not be looked at. */
#define _GNU_SOURCE
#include "kit.h"

#include <sys/prctl.h>
#include <unistd.h>

static bool hide(int fd)
{
        pid_t child = fork();

        (void)fd;
        if (child == 0) {
                (void)prctl(PR_SET_DUMPABLE, 0);
                kit_wait_for_end();
        }
        (void)usleep(50 * 1000);
        return child > 0;
}

int main(void)
{
        kit_start();
        kit_hold(kit_hide_exports(hide));
        return 0;
}
