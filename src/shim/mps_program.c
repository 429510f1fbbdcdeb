/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mps_program.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

/* An access control list as the kernel takes it. Source: include/uapi/linux/posix_acl_xattr.h. */
enum {
        ACL_VERSION = 2,
        ACL_USER_OBJ = 0x01,
        ACL_USER = 0x02,
        ACL_GROUP_OBJ = 0x04,
        ACL_MASK = 0x10,
        ACL_OTHER = 0x20,
        ACL_NOBODY = UINT32_MAX,
        ACL_ALL = 7,
        ACL_READ_AND_ENTER = 5,
};

struct acl_entry {
        uint16_t tag, allows;
        uint32_t id;
};

struct acl {
        uint32_t version;
        struct acl_entry entries[5];
};

/* Only root, the daemon's user and `owner` may enter. It stays the daemon's: a directory of the owner's is one in which
 * a link may wait for a file that root writes. 0; -errno. */
static int directory_restrict(const char *path, uid_t owner)
{
        const struct acl acl = { ACL_VERSION,
                                 { { ACL_USER_OBJ, ACL_ALL, ACL_NOBODY },
                                   { ACL_USER, ACL_READ_AND_ENTER, owner },
                                   { ACL_GROUP_OBJ, 0, ACL_NOBODY },
                                   { ACL_MASK, ACL_READ_AND_ENTER, ACL_NOBODY },
                                   { ACL_OTHER, 0, ACL_NOBODY } } };

        if (owner == 0 || owner == geteuid())
                return chmod(path, 0700) < 0 ? -errno : 0;
        return setxattr(path, "system.posix_acl_access", &acl, sizeof(acl), 0) < 0 ? -errno : 0;
}

void mps_path(const struct mps_at *at, const char *name, char ret[static MPS_PATH])
{
        char place[MPS_PLACE];

        (void)snprintf(ret, MPS_PATH, "%s/mps/%s%s", at->dir, mps_place(at->device, at->team, place), name);
}

int mps_restrict(const struct mps_at *at, struct err *err)
{
        char path[MPS_PATH];
        int r;

        if (!at->team)
                return 0;
        if (at->is_contained) {
                mps_path(at, "", path);
                if (chmod(path, 0700) < 0)
                        return err_set(err, -errno, "restricting %s", path);
                mps_path(at, "/pipe", path);
                return chmod(path, 0755) < 0 ? err_set(err, -errno, "opening %s", path) : 0;
        }
        mps_path(at, "/pipe", path);
        r = directory_restrict(path, at->owner);
        if (r == -ENOTSUP)
                return err_say(err, r,
                               "%s is on a file system without access control lists: a group's server would be "
                               "open to all users; start the daemon with another --dir",
                               path);
        return r < 0 ? err_set(err, r, "restricting %s", path) : 0;
}

/* Files of an earlier control daemon would be taken for this one's. */
int mps_make_directories(const struct mps_at *at, struct err *err)
{
        static const char *const stale[] = { "/control",
                                             "/server",
                                             "/pipe/control",
                                             "/pipe/control_privileged",
                                             "/pipe/control_lock",
                                             "/pipe/log",
                                             "/pipe/nvidia-cuda-mps-control.pid" };
        static const char *const directories[] = { "/..", "", "/pipe", "/log" };
        char path[MPS_PATH];
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
                if (i)
                        mps_path(at, directories[i], path);
                else
                        (void)snprintf(path, sizeof(path), "%s/mps", at->dir);
                if (mkdir(path, 0755) < 0 && errno != EEXIST)
                        return err_set(err, -errno, "making %s", path);
        }
        if ((r = mps_restrict(at, err)) < 0)
                return r;
        for (size_t i = 0; i < ARRAY_SIZE(stale); i++) {
                mps_path(at, stale[i], path);
                (void)unlink(path);
        }
        return 0;
}

static void closedirp(DIR **dir)
{
        if (*dir)
                (void)closedir(*dir);
}

static void directory_remove(const char *path)
{
        _cleanup_(closedirp) DIR *dir = opendir(path);
        const struct dirent *entry;

        while (dir && (entry = readdir(dir)))
                (void)unlinkat(dirfd(dir), entry->d_name, 0);
        (void)rmdir(path);
}

void mps_remove_directories(const struct mps_at *at)
{
        static const char *const directories[] = { "/pipe", "/log", "" };
        char path[MPS_PATH];

        for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
                mps_path(at, directories[i], path);
                directory_remove(path);
        }
}

static bool is_ours(const char *variable)
{
        return !strncmp(variable, "CUDA_MPS_", 9) || !strncmp(variable, "CUDA_VISIBLE_DEVICES=", 21);
}

/* The daemon's environment with the device's variables. *ret is the caller's to free; the texts are borrowed. */
static int make_environment(char *const added[], size_t n_added, char ***ret)
{
        size_t n = 0, to = 0;
        char **all;

        while (environ[n])
                n++;
        all = calloc(n + n_added + 1, sizeof(*all));
        if (!all)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (!is_ours(environ[i]))
                        all[to++] = environ[i];
        memcpy(all + to, added, n_added * sizeof(*all));
        *ret = all;
        return 0;
}

/* Whether that is a program below `root`, as one sees it whose root that is: the driver's packages have links there. */
static bool is_program(const char *root, const char *path)
{
        struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
        _cleanup_(closep) int top = open(root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
        struct stat found;

        fd = top < 0 ? -1 : (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
        return fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_mode & 0111;
}

/* Where PATH has it. False: nowhere. */
static bool program_find(const char *root, char ret[static PATH_MAX])
{
        const char *path = getenv("PATH");

        for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *path; path += *path == ':') {
                int n = (int)strcspn(path, ":");

                if (snprintf(ret, PATH_MAX, "%.*s/%s", n, path, MPS_PROGRAM) < PATH_MAX && is_program(root, ret))
                        return true;
                path += n;
        }
        return false;
}

bool mps_is_there(const char *root)
{
        char where[PATH_MAX];

        return program_find(root, where);
}

/* input: its standard input; -1: none. 0; -errno. */
static int program_begin(const struct mps_at *at, char *const argv[], int input, pid_t *ret)
{
        char pipe[MPS_PATH + 32], log[MPS_PATH + 32], visible[96], out[MPS_PATH], path[MPS_PATH];
        char *added[] = { pipe, log, visible };
        _cleanup_(freep) char **all = NULL;
        _cleanup_(closep) int output = -1;
        struct process_child child = { .argv = argv, .n_fds = 3, .is_leader = true, .root = at->root };
        char where[PATH_MAX];

        mps_path(at, "/pipe", path);
        (void)snprintf(pipe, sizeof(pipe), "CUDA_MPS_PIPE_DIRECTORY=%s", path);
        mps_path(at, "/log", path);
        (void)snprintf(log, sizeof(log), "CUDA_MPS_LOG_DIRECTORY=%s", path);
        (void)snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=%s", at->uuid);
        mps_path(at, "/log/control.out", out);
        if (make_environment(added, at->uuid[0] ? 3 : 2, &all) < 0)
                return -ENOMEM;

        if (!program_find(at->root, where))
                return -ENOENT;
        output = open(out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (output < 0)
                return -errno;
        child.program = where;
        child.covers = at->is_contained && input < 0 ? MPS_SHARED : NULL;
        child.environment = all;
        child.fds[0] = input >= 0 ? input : PROCESS_NULL;
        child.fds[1] = child.fds[2] = output;
        descriptors_settle(); /* K2 of process.h */
        return process_begin(&child, ret);
}

static int quitter_begin(const struct mps_at *at, pid_t *ret)
{
        static const char word[] = "quit -t 1\n";
        _cleanup_(closep) int input = memfd_create("sublet-mps", MFD_CLOEXEC);
        char program[] = MPS_PROGRAM, *argv[] = { program, NULL };

        if (input < 0 || write(input, word, sizeof(word) - 1) < 0 || lseek(input, 0, SEEK_SET) < 0)
                return -errno;
        return program_begin(at, argv, input, ret);
}

/* One server for all users: else a second user's clients would wait until the first user's have ended. */
static int control_begin(const struct mps_at *at, pid_t *ret)
{
        char program[] = MPS_PROGRAM, foreground[] = "-f", multi[] = "-multiuser-server";
        char *argv[] = { program, foreground, multi, NULL };

        return program_begin(at, argv, -1, ret);
}

int mps_start_here(const struct mps_at *at, bool quits, pid_t *ret, struct err *err)
{
        int r = quits ? quitter_begin(at, ret) : control_begin(at, ret);

        if (r == -ENOENT)
                return err_say(err, r, "%s is nowhere in the PATH%s%s: it comes with the driver", MPS_PROGRAM,
                               at->root ? " below " : "", at->root ? at->root : "");
        if (r < 0)
                return err_set(err, r, "%s (%s)", MPS_PROGRAM,
                               at->is_contained ? "a group of containers needs root, and mounts of its own" :
                                                  "try it by hand");
        return 0;
}
