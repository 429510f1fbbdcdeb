/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --restart: a command that a fault of its group's MPS server has ended is started again, by running ourselves anew
 * with the same arguments: a new tenancy, which may wait for room like any. A command that fails by itself is not
 * started again, and one that fails again and again only so often.
 */
#include "run/run.h"

#include "base/cleanup.h"
#include "shim/mps_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        TIMES = 5,         /* in a row, with pauses of 1, 2, 4 s ... */
        ARGUMENTS = 4096,  /* of ours */
        TEXT = 128 * 1024, /* theirs */
};

#define LASTED (60 * NSEC_PER_SEC) /* one that ran for so long is not failing in a row */

static const char count[] = "SUBLET_RESTARTS", pipes[] = "CUDA_MPS_PIPE_DIRECTORY";

/* The server is its group's and outlives its clients: if it is gone, it took them with it. The daemon's event may come
 * too late for a command that ends at once. */
static bool is_server_gone(const struct run *run)
{
        const char *pipe = getenv(pipes), *at = pipe ? strstr(pipe, "/mps/") : NULL;
        unsigned int device;
        char place[MPS_PLACE];
        uint64_t begun;
        uint32_t team;
        pid_t control;

        if (!at || sscanf(at, "/mps/%23[0-9-]/pipe", place) != 1 || !mps_place_parse(place, &device, &team))
                return false;
        control = mps_control(run->dir, device, team, &begun);
        return !control || !mps_server(control);
}

/* Only if it cannot be done. */
static int start_again(void)
{
        static char text[TEXT], *argv[ARGUMENTS + 1];
        _cleanup_(closep) int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        sigset_t none;
        int argc = 0;

        if (n <= 0 || n == (ssize_t)sizeof(text) - 1)
                return -E2BIG;
        for (ssize_t at = 0; at < n && argc < ARGUMENTS; at += (ssize_t)strlen(text + at) + 1)
                argv[argc++] = text + at;
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)execv("/proc/self/exe", argv);
        return -errno;
}

int run_again(const struct run *run, bool has_faulted, nsec lasted, int code)
{
        const char *before = getenv(count);
        int n = before && lasted < LASTED ? atoi(before) : 0;
        char text[16];

        if (!run->restarts || !code || (!has_faulted && !is_server_gone(run)))
                return code;
        if (n >= TIMES) {
                (void)fprintf(stderr, "sublet: %s: ended by its group's faults %d times in a row: not started again\n",
                              run->lease.tenant, n);
                return code;
        }
        (void)fprintf(stderr, "sublet: %s: a fault of its group has ended it; it is started again in %d s\n",
                      run->lease.tenant, 1 << n);
        (void)poll(NULL, 0, 1000 << n);
        (void)snprintf(text, sizeof(text), "%d", n + 1);
        if (setenv(count, text, 1) == 0 && unsetenv(pipes) == 0)
                (void)fprintf(stderr, "sublet: starting again: %s\n", strerror(-start_again()));
        return code;
}
