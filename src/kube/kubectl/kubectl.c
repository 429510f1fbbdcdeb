/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kubectl/kubectl.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>

/* NULL-terminated; false: too many. */
static bool arguments(const struct kubectl *kubectl, const char *const *head, const char *const *tail, const char **to)
{
        size_t n = 0;

        to[n++] = "kubectl";
        for (; *head && n < KUBECTL_ARGS; head++)
                to[n++] = *head;
        for (int i = 0; i < kubectl->n_options && n < KUBECTL_ARGS; i++)
                to[n++] = kubectl->options[i];
        if (tail && n < KUBECTL_ARGS)
                to[n++] = "--";
        for (; tail && *tail && n < KUBECTL_ARGS; tail++)
                to[n++] = *tail;
        to[n] = NULL;
        return n < KUBECTL_ARGS;
}

int kubectl_begin(const struct kubectl *kubectl, const char *const *head, const char *const *tail, bool is_quiet,
                  struct kubectl_call *ret)
{
        const char *args[KUBECTL_ARGS + 1];
        posix_spawn_file_actions_t actions;
        int pipes[2], r;
        pid_t process;

        if (!arguments(kubectl, head, tail, args))
                return -E2BIG;
        if (pipe2(pipes, O_CLOEXEC) < 0)
                return -errno;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
        (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (is_quiet)
                (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        r = posix_spawnp(&process, "kubectl", &actions, NULL, (char *const *)(uintptr_t)args, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)close(pipes[1]);
        if (r) {
                (void)close(pipes[0]);
                return -r;
        }
        *ret = (struct kubectl_call){ process, pipes[0] };
        return 0;
}

int kubectl_end(struct kubectl_call *call, json_t **ret)
{
        FILE *from = fdopen(call->fd, "r");
        json_t *root = from ? json_loadf(from, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
        int status = 0;

        while (from && fgetc(from) != EOF) /* read the rest, so that it can exit */
                ;
        if (from)
                (void)fclose(from);
        else
                (void)close(call->fd);
        while (waitpid(call->process, &status, 0) < 0 && errno == EINTR)
                ;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !root) {
                json_decref(root);
                return -EIO;
        }
        *ret = root;
        return 0;
}
