/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a shim as a child of the caller; see shim.h. */
#include "shim/spawner.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

bool shim_is_listener(int fd)
{
        char path[32], link[64] = { 0 };

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return readlink(path, link, sizeof(link) - 1) > 0 && !strcmp(link, "anon_inode:seccomp notify");
}

/* A file with the lease, at its beginning; or -errno. */
static int lease_file(const struct message_lease *lease)
{
        _cleanup_(closep) int fd = memfd_create("sublet-lease", MFD_CLOEXEC);
        json_t *body = message_lease_new(lease);
        _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

        json_decref(body);
        if (!text)
                return -ENOMEM;
        if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || lseek(fd, 0, SEEK_SET) < 0)
                return -EIO;
        return TAKE_FD(fd);
}

/* Above the fixed numbers, so that no descriptor overwrites another. */
static int fd_move(int fd)
{
        int r = fcntl(fd, F_DUPFD_CLOEXEC, SHIM_N_FDS);

        return r < 0 ? -errno : r;
}

struct fd_slots {
        int fds[SHIM_N_FDS]; /* which descriptor goes to that number; -1: none */
};

static void fd_slots_done(struct fd_slots *fd_slots)
{
        for (int i = SHIM_FD_LISTENER; i < SHIM_N_FDS; i++)
                closep(&fd_slots->fds[i]);
}

static int fd_slots_init(struct fd_slots *fd_slots, const struct shim_start *start)
{
        _cleanup_(closep) int lease = lease_file(start->lease);
        const int from[] = { start->listener, start->daemon, start->run, lease, start->init, start->record };

        for (int i = 0; i < SHIM_N_FDS; i++)
                fd_slots->fds[i] = -1;
        if (lease < 0)
                return lease;
        for (int i = 0; i < (int)ARRAY_SIZE(from); i++) {
                if (from[i] < 0)
                        continue;
                fd_slots->fds[SHIM_FD_LISTENER + i] = fd_move(from[i]);
                if (fd_slots->fds[SHIM_FD_LISTENER + i] < 0)
                        return fd_slots->fds[SHIM_FD_LISTENER + i];
        }
        return 0;
}

/* 0, or an errno. */
static int fd_slots_apply(posix_spawn_file_actions_t *actions, const struct fd_slots *fd_slots)
{
        int r = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

        if (!r)
                r = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        for (int i = SHIM_FD_LISTENER; i < SHIM_N_FDS && !r; i++)
                r = fd_slots->fds[i] < 0 ? posix_spawn_file_actions_addclose(actions, i) :
                                           posix_spawn_file_actions_adddup2(actions, fd_slots->fds[i], i);
        return r ? r : posix_spawn_file_actions_addclosefrom_np(actions, SHIM_N_FDS);
}

/* Default signals, whatever the daemon blocks. */
static void set_attributes(posix_spawnattr_t *attributes)
{
        sigset_t none, all;

        (void)sigemptyset(&none);
        (void)sigfillset(&all);
        (void)posix_spawnattr_setsigmask(attributes, &none);
        (void)posix_spawnattr_setsigdefault(attributes, &all);
        (void)posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int shim_spawn_here(const struct shim_start *start, pid_t *ret_process, struct err *err)
{
        char sublet[] = "sublet", verb[] = "keeper", option[] = "--dir";
        _cleanup_(freep) char *dir = strdup(start->dir);
        char *argv[] = { sublet, verb, option, dir, NULL };
        _cleanup_(fd_slots_done) struct fd_slots fd_slots;
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int r;

        r = fd_slots_init(&fd_slots, start);
        if (r < 0 || !dir)
                return err_set(err, r < 0 ? r : -ENOMEM, "starting the shim of '%s'", start->lease->tenant);
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawnattr_init(&attributes);
        set_attributes(&attributes);
        r = fd_slots_apply(&actions, &fd_slots);
        descriptors_settle();
        if (!r)
                r = posix_spawn(ret_process, "/proc/self/exe", &actions, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
        (void)posix_spawn_file_actions_destroy(&actions);
        return r ? err_set(err, -r, "starting the shim of '%s'", start->lease->tenant) : 0;
}

int shim_spawn(const struct shim_start *start, pid_t *ret_process, struct err *err)
{
        int r = spawner_ask(start, ret_process, err);

        if (r == SPAWNER_E_NONE)
                return shim_spawn_here(start, ret_process, err);
        return r < 0 ? err_while(err, "starting the shim of '%s'", start->lease->tenant) : 0;
}
