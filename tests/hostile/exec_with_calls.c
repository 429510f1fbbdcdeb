/* SPDX-License-Identifier: Apache-2.0 */
/* A process executes itself while its other threads are in calls for memory, again and again: the kernel ends them in
 * the middle, and whether a call was made nobody learns. The files of the driver pass to the next program, and with
 * them all that was got. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
        THREADS = 4,
        PIECE = 16,
        EXECS = 120,
        STEP_USEC = 50, /* after their beginning, at another moment each time: 1 ms at most */
        STEPS = 20,
};

static struct kit_rm rm;
static atomic_bool is_time;

static void *thread_main(void *context)
{
        while (!is_time)
                ;
        (void)kit_rm_memory(&rm, KIT_MEMORY + (uint32_t)(uintptr_t)context, PIECE * MIB);
        (void)sleep(60);
        return NULL;
}

int main(int argc, char **argv)
{
        int round = argc > 1 ? atoi(argv[1]) : 0;
        pthread_t thread;
        char next[16];

        kit_rm_open(&rm);
        for (uintptr_t i = 1; i <= THREADS; i++)
                if (pthread_create(&thread, NULL, thread_main, (void *)i))
                        kit_cannot("no thread");
        (void)snprintf(next, sizeof(next), "%d", round + 1);
        if (fcntl(rm.ctl, F_SETFD, 0) < 0 || fcntl(rm.node, F_SETFD, 0) < 0)
                kit_cannot("no flags of descriptors");
        is_time = true;
        (void)usleep((unsigned int)(round % STEPS * STEP_USEC));
        if (round < EXECS)
                (void)execl("/proc/self/exe", argv[0], next, (char *)NULL);
        kit_hold(0);
        _exit(0);
}
