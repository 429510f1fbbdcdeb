/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root of a container takes leases (fcntl, F_SETLEASE) of the files that its tenancy shares with the daemon (`sublet
 * lease`): whoever opens one then waits until the holder lets go, or for /proc/sys/fs/lease-break-time, which is 45 s.
 * That can be had while no daemon has the file open: when one ends, and the next must open it.
 *
 *      attack-region-leased FILE...        "leased=N"; until the end of stdin
 *
 * Exit status: 0; 3 it cannot be tried here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
        int n = 0;
        char byte;

        (void)signal(SIGIO, SIG_IGN); /* that somebody waits */
        for (int i = 1; i < argc; i++) {
                int fd = open(argv[i], O_RDONLY);

                if (fd < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) < 0) {
                        perror(argv[i]);
                        return 3;
                }
                n++;
        }
        printf("leased=%d\n", n);
        (void)fflush(stdout);
        (void)!read(STDIN_FILENO, &byte, 1);
        return 0;
}
