/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts that live for a moment: each has channels that the scheduler has never seen, wherever its turn is. Several
 * processes make one after the other, compute at once, and end it. */
#define _GNU_SOURCE
#include "kit_time.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
        PROCESSES = 8,
        LIFE_MSEC = 100,
};

static _Noreturn void live_shortly(void)
{
        CUdevice device;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        time_tricks.says = 9;
        kit_start();
        if (cuCtxGetDevice(&device) != CUDA_SUCCESS)
                _exit(2);
        for (;;) {
                CUcontext context;

                if (cuCtxCreate_v2(&context, 0, device) != CUDA_SUCCESS)
                        continue;
                time_context();
                (void)time_compute_for(LIFE_MSEC);
                (void)cuCtxDestroy(context);
        }
}

int main(void)
{
        struct pollfd in = { STDIN_FILENO, POLLIN, 0 };

        for (int i = 0; i < PROCESSES; i++)
                if (fork() == 0)
                        live_shortly();
        (void)sleep(1);
        printf("computing\n");
        (void)fflush(stdout);
        (void)poll(&in, 1, 60 * 1000);
        return 0; /* and the children end with it */
}
