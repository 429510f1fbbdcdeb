/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor only a child has that never made a driver call. */
#define _GNU_SOURCE
#include "kit.h"

#include <unistd.h>

static bool hide(int fd)
{
        pid_t child = fork();

        (void)fd;
        if (child == 0) {
                (void)setsid();
                kit_wait_for_end();
        }
        return child > 0;
}

int main(void)
{
        kit_start();
        kit_hold(kit_hide_exports(hide));
        return 0;
}
