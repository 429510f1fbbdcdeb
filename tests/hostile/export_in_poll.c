/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor has been closed while a thread waits for it in poll(2): the open file stays for as
 * long as the call, and no table shows it. */
#define _GNU_SOURCE
#include "kit.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void *waiter(void *descriptor)
{
        struct pollfd on = { *(int *)descriptor, 0, 0 };

        free(descriptor);
        (void)poll(&on, 1, 60 * 1000);
        return NULL;
}

static bool hide(int fd)
{
        int *argument = malloc(sizeof(int));
        pthread_t thread;

        if (!argument)
                return false;
        *argument = fd;
        if (pthread_create(&thread, NULL, waiter, argument))
                return false;
        (void)usleep(50 * 1000); /* it waits by then */
        return true;
}

int main(void)
{
        kit_start();
        kit_hold(kit_hide_exports(hide));
        _exit(0);
}
