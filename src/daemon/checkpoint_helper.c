/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet checkpoint`: a process of the daemon's that suspends or resumes one tenant's processes, and ends. The
 * driver's library is loaded here and never in the daemon; what it may do to this process, or how long it may take,
 * is an outcome (daemon/state/suspend.c). Its exit code is enum checkpoint_outcome, its output a line that says why.
 */
#include "base/cleanup.h"
#include "base/text.h"
#include "daemon/verbs.h"
#include "gpu/checkpoint.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
        EXIT_USAGE = 2,
};

int checkpoint_main(int argc, char **argv)
{
        pid_t processes[CHECKPOINT_PROCESSES];
        char text[CHECKPOINT_TEXT] = "";
        enum checkpoint_outcome outcome;
        uint64_t number = 0;
        size_t n = 0;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the next daemon has one of its own */
        for (int i = 2; i < argc && n < ARRAY_SIZE(processes); i++) {
                if (number_parse(argv[i], &number) < 0 || !number || number > INT_MAX)
                        return EXIT_USAGE;
                processes[n++] = (pid_t)number;
        }
        if (!n || (strcmp(argv[1], "suspend") != 0 && strcmp(argv[1], "resume") != 0))
                return EXIT_USAGE;
        outcome = checkpoint_move(processes, n, !strcmp(argv[1], "suspend"), text);
        (void)printf("%s\n", text);
        return (int)outcome;
}
