/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a host is to have (install.h says what becomes of them); and files read and written as a whole, at a
 * path that begins with the host's root directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct err;

enum {
        INSTALL_FILES = 128,
        INSTALL_PATH = 512,
};

struct install {
        const char *host;   /* where the host's root directory is; "": here */
        const char *prefix; /* on the host; its parent exists */

        struct install_file {
                char path[INSTALL_PATH]; /* on the host */
                char from[INSTALL_PATH]; /* of a copy */
                char *bytes;             /* else */
                mode_t mode;
                bool wakes;     /* containerd reads it when it starts */
                bool is_shared; /* others' text is in it: mode and owner stay, and it is not removed with ours */
        } files[INSTALL_FILES];
        size_t n;
};

/* Notes a file; bytes is the list's from now on, NULL: out of memory. 0; -errno. */
int install_put(struct install *install, char *bytes, mode_t mode, const char *path, ...)
        __attribute__((format(printf, 4, 5)));
int install_copy(struct install *install, const char *from, mode_t mode, const char *path, ...)
        __attribute__((format(printf, 4, 5)));
void install_done(struct install *install); /* for _cleanup_ */

/* Reads a file of the host: *ret is the caller's, with a NUL behind it. 0; -ENOENT; -ELOOP: it is a link; -errno. */
int install_read(const struct install *install, const char *path, char **ret, size_t *ret_size);

enum {
        PLACE = 2 * INSTALL_PATH,
        PLACE_NEW = PLACE + 8,
};

/* Where a file is written before it is renamed: hidden, so that nobody who reads the directory takes it for one. */
void file_place_new(const char *place, char ret[static PLACE_NEW]);

/* flags: O_NOFOLLOW or 0. *ret is the caller's, with a NUL behind it. 0; -ENOENT; -ELOOP; -EINVAL: no file; -errno. */
int file_read(const char *place, int flags, char **ret, size_t *ret_size, struct stat *ret_status);

/* Written beside its place, synced and renamed, with the mode of `like`, and its owner if it has an inode.
 * 0; -errno. */
int file_write(const char *place, const char *bytes, size_t size, const struct stat *like, struct err *err);

/* With what was left beside it. */
void file_remove(const struct install *install, const char *path);
