/* SPDX-License-Identifier: Apache-2.0 */
/* Twelve processes compute at once. They end, and others begin, all the time. */
#include "kit_time.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        PROCESSES = 8,
        LIVES_MSEC = 700,
};

static void child_main(int number)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        time_start();
        (void)time_compute_for((unsigned int)(LIVES_MSEC + 60 * number));
        _exit(0);
}

static void child_start(int number)
{
        if (fork() == 0)
                child_main(number);
}

int main(void)
{
        pid_t storm = fork();

        if (storm == 0) { /* before any context: a child of CUDA's could not use it */
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (int i = 0; i < PROCESSES; i++)
                        child_start(i);
                for (int i = 0; waitpid(-1, NULL, 0) > 0; i++)
                        child_start(i % PROCESSES);
                _exit(0);
        }
        time_start();
        time_compute();
        (void)kill(storm, SIGKILL);
        return 0;
}
