/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet checkpoint`: a process of the daemon's that suspends or resumes one tenant's processes, and ends. The
 * driver's library is loaded here and never in the daemon; what it may do to this process, or how long it may take,
 * is an outcome (suspension.h). Its exit code is enum checkpoint_outcome, its output a line that says why.
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

/* "NUMBER:BEGAN": base/process.h; 0 is not known. */
static bool name_parse(char *text, struct checkpoint_process *ret)
{
        char *colon = strchr(text, ':');
        uint64_t number, began;

        if (!colon)
                return false;
        *colon = '\0';
        if (number_parse(text, &number) < 0 || !number || number > INT_MAX || number_parse(colon + 1, &began) < 0)
                return false;
        *ret = (struct checkpoint_process){ (pid_t)number, began };
        return true;
}

int checkpoint_main(int argc, char **argv)
{
        struct checkpoint_process processes[CHECKPOINT_PROCESSES];
        char text[CHECKPOINT_TEXT] = "";
        enum checkpoint_outcome outcome;
        size_t n = 0;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the next daemon has one of its own */
        for (int i = 2; i < argc && n < ARRAY_SIZE(processes); i++)
                if (!name_parse(argv[i], &processes[n++]))
                        return EXIT_USAGE;
        if (!n || (strcmp(argv[1], "suspend") != 0 && strcmp(argv[1], "resume") != 0))
                return EXIT_USAGE;
        outcome = checkpoint_move(processes, n, !strcmp(argv[1], "suspend"), text);
        (void)printf("%s\n", text);
        return (int)outcome;
}
