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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
        const char *pipe = getenv(pipes);
        size_t length = strlen(run->dir);
        char place[MPS_PLACE];
        unsigned int device;
        uint32_t team;

        if (!pipe || strncmp(pipe, run->dir, length) != 0 || sscanf(pipe + length, "/mps/%23[0-9-]", place) != 1 ||
            !mps_place_parse(place, &device, &team))
                return false;
        return mps_server_has_ended(run->dir, device, team);
}

/* By whoever has taken up its room, or its terminal: not by a fault. */
static bool was_told_to_end(const struct run *run, int code)
{
        return run->is_told_to_end || code == 128 + SIGKILL || code == 128 + SIGTERM || code == 128 + SIGINT;
}

/* False: a signal came that ends us. */
static bool pause_for(int seconds)
{
        const struct timespec time = { .tv_sec = seconds };
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGHUP);
        (void)sigaddset(&set, SIGQUIT);
        return sigtimedwait(&set, NULL, &time) < 0;
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

        if (!run->restarts || !code || was_told_to_end(run, code) || (!has_faulted && !is_server_gone(run)))
                return code;
        if (n >= TIMES) {
                (void)fprintf(stderr, "sublet: %s: ended by its group's faults %d times in a row: not started again\n",
                              run->lease.tenant, n);
                return code;
        }
        (void)fprintf(stderr, "sublet: %s: a fault of its group has ended it; it is started again in %d s\n",
                      run->lease.tenant, 1 << n);
        if (!pause_for(1 << n))
                return code;
        (void)snprintf(text, sizeof(text), "%d", n + 1);
        if (setenv(count, text, 1) == 0 && unsetenv(pipes) == 0)
                (void)fprintf(stderr, "sublet: starting again: %s\n", strerror(-start_again()));
        return code;
}
