/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/side.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A copy of what is mounted at `path`, or below it, on no tree yet. */
static int mount_copy(const char *path, uint64_t attributes)
{
        struct mount_attr set = { .attr_set = attributes, .propagation = MS_PRIVATE };
        _cleanup_(closep) int fd =
                (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | (unsigned int)OPEN_TREE_CLOEXEC);

        if (fd < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &set, sizeof(set)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static int open_within(int at, const char *path, uint64_t how)
{
        struct open_how open = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = how };
        int fd = (int)syscall(SYS_openat2, at, path, &open, sizeof(open));

        return fd < 0 ? -errno : fd;
}

/* A directory of the container, made where it is missing. What is there is its image's, or a volume's, in which another
 * container may move names about: a link on the way is followed below the root, and the directory itself is none. */
static int make_within(int root, const char *parent, mode_t mode, const char *name)
{
        _cleanup_(closep) int at = -1;

        if (mkdirat(root, parent, mode) < 0 && errno != EEXIST)
                return -errno;
        at = open_within(root, parent, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
        if (at < 0)
                return at;
        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
                return -errno;
        return open_within(at, name, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static int mount_put(int mount, int root, const char *parent, mode_t mode, const char *name)
{
        _cleanup_(closep) int to = make_within(root, parent, mode, name);

        if (to < 0)
                return to;
        return syscall(SYS_move_mount, mount, "", to, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ?
                       -errno :
                       0;
}

struct side {
        int pipe, shared; /* copies of the mounts */
};

static void side_close(struct side *side)
{
        closep(&side->pipe);
        closep(&side->shared);
}

/* As the server's control daemon sees them. */
static int copy_of(const struct side_server *server, struct side *ret, struct err *err)
{
        _cleanup_(closep) int control = (int)syscall(SYS_pidfd_open, server->control, 0);
        const uint64_t safe = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSYMFOLLOW;
        struct stat ours, its;

        if (control < 0 || process_began(server->control) != server->begun)
                return err_say(err, -ESRCH, "the control daemon of its group's MPS server has ended");
        if (stat("/" SIDE_SHARED, &ours) < 0 || setns(control, CLONE_NEWNS) < 0 || stat("/" SIDE_SHARED, &its) < 0)
                return err_set(err, -errno, "seeing the files of its group's MPS server");
        if (ours.st_dev == its.st_dev) /* a container would have the machine's */
                return err_say(err, -EPERM, "its group's MPS server has no /" SIDE_SHARED " of its own");
        ret->pipe = mount_copy(server->pipe, safe | MOUNT_ATTR_RDONLY);
        ret->shared = ret->pipe < 0 ? ret->pipe : mount_copy("/" SIDE_SHARED, safe);
        return ret->shared < 0 ? err_set(err, ret->shared, "copying the mounts of its group's MPS server") : 0;
}

int side_mount(const struct side_server *server, pid_t container, const char *bundle, const char *root, struct err *err)
{
        _cleanup_(side_close) struct side side = { -1, -1 };
        _cleanup_(closep) int inside = (int)syscall(SYS_pidfd_open, container, 0), at = -1;
        char path[2 * PATH_MAX];
        int r;

        if (inside < 0)
                return err_set(err, -errno, "the container's first process, %d", container);
        if ((r = copy_of(server, &side, err)) < 0)
                return r;
        (void)snprintf(path, sizeof(path), "%s%s%s", *root == '/' ? "" : bundle, *root == '/' ? "" : "/", root);
        if (setns(inside, CLONE_NEWNS) < 0)
                return err_set(err, -errno, "entering the container's mount namespace");
        at = open_within(AT_FDCWD, path, 0);
        if (at < 0)
                return err_set(err, at, "the container's root at %.200s", path);
        r = mount_put(side.pipe, at, "tmp", 01777, "nvidia-mps");
        if (r < 0)
                return err_set(err, r, "mounting the pipe of its group's MPS server at /" SIDE_PIPE);
        r = mount_put(side.shared, at, "dev", 0755, "shm");
        return r < 0 ? err_set(err, r, "mounting the files of its group's MPS server at /" SIDE_SHARED) : 0;
}
