/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a shim, or a program of MPS, by the spawner or as a child of the caller; see shim.h and spawner.h. */
#include "shim/spawner.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/process.h"

#include <errno.h>
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

int shim_spawn_here(const struct shim_start *start, pid_t *ret_process, struct err *err)
{
        char sublet[] = "sublet", verb[] = "keeper", option[] = "--dir";
        _cleanup_(freep) char *dir = strdup(start->dir);
        char *argv[] = { sublet, verb, option, dir, NULL };
        _cleanup_(closep) int lease = lease_file(start->lease);
        const struct process_child child = {
                .argv = argv,
                .fds = { PROCESS_NULL, PROCESS_NULL, STDERR_FILENO, start->listener, start->daemon, start->run, lease,
                         start->init, start->record },
                .n_fds = SHIM_N_FDS,
                .is_leader = true,
        };
        int r = lease < 0 ? lease : dir ? 0 : -ENOMEM;

        descriptors_settle(); /* K2 of process.h */
        if (r == 0)
                r = process_begin(&child, ret_process);
        return r < 0 ? err_set(err, r, "starting the shim of '%s'", start->lease->tenant) : 0;
}

int shim_spawn(const struct shim_start *start, pid_t *ret_process, struct err *err)
{
        int r = spawner_ask(start, ret_process, err);

        if (r == SPAWNER_E_NONE)
                return shim_spawn_here(start, ret_process, err);
        return r < 0 ? err_while(err, "starting the shim of '%s'", start->lease->tenant) : 0;
}

int mps_start(const struct mps_at *at, bool quits, pid_t *ret, struct err *err)
{
        int r = spawner_ask_mps(at, quits, ret, err);

        return r == SPAWNER_E_NONE ? mps_start_here(at, quits, ret, err) : r;
}
