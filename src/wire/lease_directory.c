/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/lease_directory.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/process.h"
#include "preload/usage_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

static const char *const names[] = { "page", "region", "libsublet.so", "ld.so.preload", "attach.sock" };

int lease_directory_library(char ret[static PATH_MAX], struct err *err)
{
        if (process_beside("preload/libsublet.so", ret, PATH_MAX) ||
            process_beside("../lib/sublet/libsublet.so", ret, PATH_MAX))
                return 0;
        return err_say(err, -ENOENT, "libsublet.so is not beside this program, where it was installed");
}

void lease_directory_describe(const struct gpu_backend *backend, const struct lease *lease,
                              struct lease_descriptor *ret)
{
        struct stat st;

        memset(ret, 0, sizeof(*ret));
        ret->lease = *lease;
        ret->layout = backend->layout;
        ret->is_sim = !strcmp(backend->name, "sim");
        if (!ret->is_sim && stat("/dev/nvidia-uvm", &st) == 0)
                ret->uvm_major = major(st.st_rdev);
}

/* A new file in it, never one that was there before. Or -errno. */
static int create_file(int dir, const char *name, mode_t mode)
{
        _cleanup_(closep) int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

        return fd < 0 || fchmod(fd, mode) < 0 ? -errno : TAKE_FD(fd);
}

static int write_file(int dir, const char *name, const void *from, size_t size)
{
        _cleanup_(closep) int fd = create_file(dir, name, 0444);

        if (fd < 0)
                return fd;
        return write(fd, from, size) == (ssize_t)size ? 0 : -EIO;
}

static int copy_library(int dir, struct err *err)
{
        char path[PATH_MAX];
        int r = lease_directory_library(path, err);
        _cleanup_(closep) int from = r < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_(closep) int to = -1;
        ssize_t n;

        if (r < 0)
                return r;
        to = from < 0 ? -errno : create_file(dir, "libsublet.so", 0755);
        if (to < 0)
                return err_set(err, to, "copying %s", path);
        while ((n = sendfile(to, from, NULL, 1 << 30)) > 0)
                ;
        return n < 0 ? err_set(err, -errno, "copying %s", path) : 0;
}

/* The page comes last: a directory that has one is complete. */
static int fill_directory(int dir, struct lease_descriptor *descriptor, struct err *err)
{
        static const char preload[] = LEASE_DESCRIPTOR_MOUNT_DIR "/libsublet.so\n";
        _cleanup_(closep) int segment = create_file(dir, "region", 0666);
        int r = segment;

        if (r < 0 || (r = lease_descriptor_seal(descriptor)) < 0 ||
            (r = usage_segment_write(segment, descriptor->tenancy)) < 0 ||
            (r = write_file(dir, "ld.so.preload", preload, sizeof(preload) - 1)) < 0)
                return err_set(err, r, "writing the lease");
        r = copy_library(dir, err);
        if (r < 0)
                return r;
        r = write_file(dir, "page", descriptor, sizeof(*descriptor));
        return r < 0 ? err_set(err, r, "writing the lease") : 0;
}

/* Processes write the region at every allocation: a disk would write it back again and again. */
static int check_is_memory(int dir, const char *path, struct err *err)
{
        struct statfs fs;

        if (fstatfs(dir, &fs) < 0)
                return err_set(err, -errno, "looking for %s", path);
        return fs.f_type == TMPFS_MAGIC ?
                       0 :
                       err_say(err, -EXDEV, "%s is not on a tmpfs: choose a directory under /run or /dev/shm", path);
}

static int err_exists(const char *dir, struct err *err)
{
        return err_say(err, -EEXIST, "%s is there already: choose another directory, or 'sublet lease --end %s'", dir,
                       dir);
}

int lease_directory_check(const char *dir, struct err *err)
{
        _cleanup_(freep) char *copy = strdup(dir);
        _cleanup_(closep) int above = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

        if (faccessat(AT_FDCWD, dir, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return err_exists(dir, err);
        return above < 0 ? err_set(err, -errno, "making %s", dir) : check_is_memory(above, dir, err);
}

int lease_directory_make(const char *dir, struct lease_descriptor *descriptor, struct err *err)
{
        _cleanup_(closep) int fd = -1;
        int r;

        if (mkdir(dir, 0755) < 0)
                return errno == EEXIST ? err_exists(dir, err) : err_set(err, -errno, "making %s", dir);
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        r = fd < 0 || fchmod(fd, 0755) < 0 ? err_set(err, -errno, "making %s", dir) : check_is_memory(fd, dir, err);
        if (r == 0)
                r = fill_directory(fd, descriptor, err);
        if (r < 0)
                (void)lease_directory_remove(dir, NULL);
        return r;
}

int lease_directory_remove(const char *dir, struct err *err)
{
        _cleanup_(closep) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

        if (fd < 0 && errno == ENOENT)
                return err_say(err, -ENOENT, "there is no lease at %s: it has ended, or was never made", dir);
        if (fd < 0)
                return err_set(err, -errno, "looking for %s", dir);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (unlinkat(fd, names[i], 0) < 0 && errno != ENOENT)
                        return err_set(err, -errno, "removing %s/%s", dir, names[i]);
        return rmdir(dir) < 0 ? err_set(err, -errno, "removing %s", dir) : 0;
}
