/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant that is suspended executes another program, and the exec closes a file of FUSE whose server does not answer:
 * whoever asks /proc when this process began, or whether it is alive, waits until that server lets go. "ready", and at
 * a line on stdin it does, for KIT_FUSE_LIFE_SEC.
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
        char byte;

        if (pipe(alive) < 0 || pipe2(report, O_CLOEXEC) < 0)
                kit_cannot("no pipe");
        if (kit_fuse_open(alive[0], report[1]) < 0)
                kit_cannot("no FUSE here");
        kit_start();
        (void)kit_take_device(64, 64);
        printf("ready\n");
        (void)fflush(stdout);
        (void)!read(STDIN_FILENO, &byte, 1);
        (void)execlp("sleep", "sleep", "1", (char *)NULL);
        return 2;
}
