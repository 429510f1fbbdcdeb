/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/node/files.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FILE_MOST ((off_t)256 << 20)

/* ---- the list -------------------------------------------------------------------------------- */

static int add_file(struct install *install, mode_t mode, const char *path, va_list args)
{
        struct install_file *file = &install->files[install->n];
        int n;

        if (install->n == INSTALL_FILES)
                return -E2BIG;
        *file = (struct install_file){ .mode = mode };
        n = vsnprintf(file->path, sizeof(file->path), path, args);
        if (n < 0 || (size_t)n >= sizeof(file->path))
                return -ENAMETOOLONG;
        install->n++;
        return 0;
}

int install_put(struct install *install, char *bytes, mode_t mode, const char *path, ...)
{
        va_list args;
        int r;

        va_start(args, path);
        r = bytes ? add_file(install, mode, path, args) : -ENOMEM;
        va_end(args);
        if (r < 0)
                free(bytes);
        else
                install->files[install->n - 1].bytes = bytes;
        return r;
}

int install_copy(struct install *install, const char *from, mode_t mode, const char *path, ...)
{
        va_list args;
        int r;

        if (strlen(from) >= INSTALL_PATH)
                return -ENAMETOOLONG;
        va_start(args, path);
        r = add_file(install, mode, path, args);
        va_end(args);
        if (r == 0)
                memcpy(install->files[install->n - 1].from, from, strlen(from) + 1);
        return r;
}

void install_done(struct install *install)
{
        for (size_t i = 0; i < install->n; i++)
                free(install->files[i].bytes);
        install->n = 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

int file_read(const char *path, int flags, char **ret, size_t *ret_size, struct stat *ret_status)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
        _cleanup_(freep) char *bytes = NULL;
        size_t size = 0;
        ssize_t n = 1;

        if (fd < 0 || fstat(fd, ret_status) < 0)
                return -errno;
        if (!S_ISREG(ret_status->st_mode) || ret_status->st_size > FILE_MOST)
                return S_ISREG(ret_status->st_mode) ? -EFBIG : -EINVAL;
        bytes = malloc((size_t)ret_status->st_size + 1);
        while (bytes && n > 0 && size < (size_t)ret_status->st_size) {
                n = read(fd, bytes + size, (size_t)ret_status->st_size - size);
                size += n > 0 ? (size_t)n : 0;
        }
        if (!bytes || n < 0)
                return bytes ? -errno : -ENOMEM;
        bytes[size] = '\0';
        *ret = TAKE(bytes);
        *ret_size = size;
        return 0;
}

int install_read(const struct install *install, const char *path, char **ret, size_t *ret_size)
{
        char place[PLACE];
        struct stat status;

        (void)snprintf(place, sizeof(place), "%s%s", install->host, path);
        return file_read(place, O_NOFOLLOW, ret, ret_size, &status);
}

void file_place_new(const char *place, char ret[static PLACE_NEW])
{
        const char *name = strrchr(place, '/') + 1;

        (void)snprintf(ret, PLACE_NEW, "%.*s.%s.new", (int)(name - place), place, name);
}

int file_write(const char *place, const char *bytes, size_t size, const struct stat *like, struct err *err)
{
        _cleanup_(closep) int fd = -1, dir = -1;
        char next[PLACE_NEW];
        ssize_t n = 0;

        file_place_new(place, next);
        (void)unlink(next);
        fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return err_set(err, -errno, "writing %s", place);
        for (size_t at = 0; at < size && n >= 0; at += n > 0 ? (size_t)n : 0)
                n = write(fd, bytes + at, size - at);
        if (n < 0 || (like->st_ino && fchown(fd, like->st_uid, like->st_gid) < 0) ||
            fchmod(fd, like->st_mode & 07777) < 0 || fsync(fd) < 0 || rename(next, place) < 0) {
                int r = -errno;

                (void)unlink(next);
                return err_set(err, r, "writing %s", place);
        }
        *(strrchr(next, '/') + 1) = '\0';
        dir = open(next, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return dir < 0 || fsync(dir) < 0 ? err_set(err, -errno, "writing %s", place) : 0;
}

void file_remove(const struct install *install, const char *path)
{
        char place[PLACE], next[PLACE_NEW];

        (void)snprintf(place, sizeof(place), "%s%s", install->host, path);
        file_place_new(place, next);
        (void)unlink(next);
        (void)unlink(place);
}
