/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet run --detach`: all goes on in a process of its own session, and who called waits only until the tenant has
 * started. What would go to the terminal goes to a file beside it, as with nohup; and what would go to a pipe, for who
 * reads the name from it waits until the last writer has closed it.
 */
#include "run/run.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_SIZE = NAME_MAX + 1 };

static void output_path(const struct run *run, char ret[PATH_SIZE])
{
        (void)snprintf(ret, PATH_SIZE, "%.200s.log", run->tenant);
        for (char *c = ret; *c; c++)
                if (*c == '/')
                        *c = '_';
}

static bool ends_with_us(int fd)
{
        struct stat st;

        return isatty(fd) || (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode));
}

static bool wants_file(void)
{
        return ends_with_us(STDOUT_FILENO) || ends_with_us(STDERR_FILENO);
}

/* The exit code of who called. */
static int wait_for_start(const struct run *run, int socket, pid_t child)
{
        char name[sizeof(run->lease.tenant)], path[PATH_SIZE];
        ssize_t n = TEMP_FAILURE_RETRY(recv(socket, name, sizeof(name) - 1, 0));
        int status = 0;

        output_path(run, path);
        if (n > 0) {
                name[n] = '\0';
                if (wants_file() && !run->is_quiet)
                        (void)fprintf(stderr, "sublet: %s: its output goes to %s\n", name, path);
                (void)fprintf(stdout, "%s\n", name);
                return 0;
        }
        if (TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) < 0 || !WIFEXITED(status))
                return EXIT_FAILED;
        if (WEXITSTATUS(status) != EXIT_USAGE && wants_file() && access(path, F_OK) == 0)
                (void)fprintf(stderr, "sublet: %s: it has not started: see %s\n", run->tenant, path);
        return WEXITSTATUS(status);
}

int run_detach(struct run *run, int *ret_code, struct err *err)
{
        int ends[2];
        pid_t child;

        if (!run->is_detached)
                return 0;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_set(err, -errno, "--detach");
        (void)fflush(NULL);
        child = fork();
        if (child < 0)
                return err_set(err, -errno, "--detach");
        if (child == 0) {
                (void)close(ends[0]);
                (void)setsid();
                run->started = ends[1];
                return 0;
        }
        (void)close(ends[1]);
        *ret_code = wait_for_start(run, ends[0], child);
        (void)close(ends[0]);
        return 1;
}

int run_detach_output(const struct run *run, struct err *err)
{
        _cleanup_(closep) int nothing = -1, to = -1;
        char path[PATH_SIZE];

        if (!run->is_detached)
                return 0;
        if (isatty(STDIN_FILENO)) {
                nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
                if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
                        return err_set(err, -errno, "/dev/null");
        }
        if (!wants_file())
                return 0;
        output_path(run, path);
        to = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (to < 0)
                return err_set(err, -errno, "%s, for the output", path);
        for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
                if (ends_with_us(fd) && dup2(to, fd) < 0)
                        return err_set(err, -errno, "%s, for the output", path);
        return 0;
}

void run_detach_started(struct run *run, int executing)
{
        const char *name = run->lease.tenant[0] ? run->lease.tenant : run->tenant;
        char cannot;

        if (!run->is_detached || run->started <= 0 ||
            (executing >= 0 && TEMP_FAILURE_RETRY(recv(executing, &cannot, 1, 0)) != 0))
                return;
        (void)send(run->started, name, strlen(name), MSG_NOSIGNAL);
        (void)close(run->started);
        run->started = 0;
}
