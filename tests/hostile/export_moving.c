/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor changes its number all the time, so that a scan of the table may miss it. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int moving[64];
static _Atomic int n;

/* Behind the scan and before it: from a high number to a low one and back. */
static void *mover(void *unused)
{
        (void)unused;
        for (;;)
                for (int i = 0; i < n; i++) {
                        int high = fcntl(moving[i], F_DUPFD_CLOEXEC, 900), low;

                        (void)close(moving[i]);
                        low = fcntl(high, F_DUPFD_CLOEXEC, 20);
                        (void)close(high);
                        moving[i] = low;
                }
        return NULL;
}

static bool hide(int fd)
{
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 20);

        if (copy < 0)
                return false;
        moving[n] = copy;
        n++;
        return true;
}

int main(void)
{
        pthread_t thread;
        uint64_t got;

        kit_start();
        if (pthread_create(&thread, NULL, mover, NULL))
                kit_cannot("no thread");
        got = kit_hide_exports(hide);
        kit_hold(got);
        _exit(0);
}
