/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program beside Sublet, of any user: as soon as it has a context it executes another one, and the exec closes a file
 * of FUSE whose server does not answer, before it comes to the driver's. Whoever finds it on the device, and asks for
 * its maps, waits until that server lets go. "executes", and then it does, for KIT_FUSE_LIFE_SEC.
 */
#define _GNU_SOURCE
#include "kit.h"
#include "kit_fuse.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int alive[2], report[2]; /* the server's; the first stays open in what is executed */

int main(void)
{
        if (pipe(alive) < 0 || pipe2(report, O_CLOEXEC) < 0)
                kit_cannot("no pipe");
        if (kit_fuse_open(alive[0], report[1]) < 0) /* first: a lower number is closed before a higher one */
                kit_cannot("no FUSE here");
        kit_start();
        printf("executes\n");
        (void)fflush(stdout);
        (void)execlp("sleep", "sleep", "1", (char *)NULL);
        return 2;
}
