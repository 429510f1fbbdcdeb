/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libsublet-sim.so: the kernel's side of the simulated nodes, inside a program (LD_PRELOAD).
 *
 * The kernel has no simulated driver, so this library does what a driver would do behind the system
 * calls: it opens nodes, and carries ioctl and mmap (mappings.c) to the server. Rules:
 *      S1  the system call is always made first, so that a supervisor (seccomp) sees what it would see
 *          with the real driver, and may answer it. Only if the call fails as it does on a socket
 *          (ENOTTY, ENODEV) was it not answered, and goes to the server;
 *      S2  a descriptor is a node if its peer is the server's socket: dup, fork, exec, SCM_RIGHTS and
 *          pidfd_getfd need no bookkeeping;
 *      S3  calls on anything else are passed to the next library, unchanged;
 *      S4  no output, no allocation, no lock; errno as the kernel would leave it.
 * Without SUBLET_SIM it does nothing.
 */
#undef _FILE_OFFSET_BITS /* it would rename what is defined here: each by its own name */

#include "base/cleanup.h"
#include "rm/version.h"
#include "sim/client/client.h"
#include "sim/client/hook.h"
#include "sim/client/wire.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

enum {
        RM_MAJOR = 195,
        UVM_MAJOR = 511, /* dynamic in reality */
        CTL_MINOR = 255,
};

/* ---- the machine --------------------------------------------------------------------------- */

static char machine[96]; /* its directory; empty: none. Written once, before main */
static struct rm_layout layout;

/* The server gives an unknown release this layout, too (MACHINE_RELEASE). */
static void layout_find(void)
{
        static const struct rm_version fallback = { 580, 159, 4 };

        if (sim_layout(machine, &layout) != RM_OK && rm_layout_for(fallback, &layout) != RM_OK)
                machine[0] = 0;
}

__attribute__((constructor)) static void machine_find(void)
{
        const char *directory = sim_directory();

        if (machine[0] || !directory || strlen(directory) >= sizeof(machine))
                return;
        strcpy(machine, directory);
        layout_find();
}

bool sim_is_on(void)
{
        return machine[0];
}

/* ---- what would have been called ----------------------------------------------------------- */

/* The next library's function, or NULL; looked up once. */
#define NEXT(type, name, ...)                                                                                          \
        static type (*_Atomic next)(__VA_ARGS__);                                                                      \
        if (!next)                                                                                                     \
                next = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

static bool has_prefix(const char *path, const char *prefix)
{
        return strncmp(path, prefix, strlen(prefix)) == 0;
}

/* The name of a node, "nvidia0"; NULL: not one. */
static const char *node_name(const char *path)
{
        return machine[0] && path && has_prefix(path, "/dev/nvidia") && !strchr(path + 5, '/') ? path + 5 : NULL;
}

/* Where the file of the machine is; path itself if it has none. */
static const char *path_redirect(const char *path, char *buffer, size_t size)
{
        if (!machine[0] || !path ||
            !(has_prefix(path, "/dev/nvidia") || has_prefix(path, "/proc/driver/nvidia") ||
              has_prefix(path, "/sys/module/nvidia")))
                return path;
        return snprintf(buffer, size, "%s%s", machine, path) < (int)size ? buffer : path;
}

static int result_or_errno(int r)
{
        if (r >= 0)
                return r;
        errno = -r;
        return -1;
}

/* ---- open ---------------------------------------------------------------------------------- */

enum {
        PATH_SIZE = 512,
};

/* S1 does not hold for open: there is no system call that a supervisor would decide by. */
static int open_any(int directory, const char *path, int flags, mode_t mode)
{
        char buffer[PATH_SIZE];
        const char *node = node_name(path);
        int fd;

        NEXT(int, "openat", int, const char *, int, ...)
        if (node)
                return result_or_errno(sim_open(machine, node, flags));
        path = path_redirect(path, buffer, sizeof(buffer));
        fd = next ? next(directory, path, flags, mode) : (int)syscall(SYS_openat, directory, path, flags, mode);
        return fd;
}

#define MODE_OF(flags, mode)                                                                                           \
        if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) {                                                     \
                va_list list_;                                                                                         \
                                                                                                                       \
                va_start(list_, flags);                                                                                \
                mode = va_arg(list_, mode_t);                                                                          \
                va_end(list_);                                                                                         \
        }

HOOK int open(const char *path, int flags, ...)
{
        mode_t mode = 0;

        MODE_OF(flags, mode)
        return open_any(AT_FDCWD, path, flags, mode);
}

ALIAS(open) int open64(const char *path, int flags, ...);

HOOK int openat(int directory, const char *path, int flags, ...)
{
        mode_t mode = 0;

        MODE_OF(flags, mode)
        return open_any(directory, path, flags, mode);
}

ALIAS(openat) int openat64(int directory, const char *path, int flags, ...);

/* _FORTIFY_SOURCE calls these instead. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __openat64_2(int directory, const char *path, int flags);

HOOK int __open_2(const char *path, int flags)
{
        return open_any(AT_FDCWD, path, flags, 0);
}

HOOK int __open64_2(const char *path, int flags)
{
        return open_any(AT_FDCWD, path, flags, 0);
}

HOOK int __openat_2(int directory, const char *path, int flags)
{
        return open_any(directory, path, flags, 0);
}

HOOK int __openat64_2(int directory, const char *path, int flags)
{
        return open_any(directory, path, flags, 0);
}

HOOK FILE *fopen(const char *path, const char *mode)
{
        char buffer[PATH_SIZE];

        NEXT(FILE *, "fopen", const char *, const char *)
        return next(path_redirect(path, buffer, sizeof(buffer)), mode);
}

HOOK FILE *fopen64(const char *path, const char *mode)
{
        char buffer[PATH_SIZE];

        NEXT(FILE *, "fopen64", const char *, const char *)
        return next(path_redirect(path, buffer, sizeof(buffer)), mode);
}

HOOK DIR *opendir(const char *path)
{
        char buffer[PATH_SIZE];

        NEXT(DIR *, "opendir", const char *)
        return next(path_redirect(path, buffer, sizeof(buffer)));
}

/* ---- access, stat -------------------------------------------------------------------------- */

HOOK int access(const char *path, int mode)
{
        char buffer[PATH_SIZE];

        return (int)syscall(SYS_faccessat, AT_FDCWD, path_redirect(path, buffer, sizeof(buffer)), mode);
}

HOOK int faccessat(int directory, const char *path, int mode, int flags)
{
        char buffer[PATH_SIZE];

        NEXT(int, "faccessat", int, const char *, int, int)
        return next(directory, path_redirect(path, buffer, sizeof(buffer)), mode, flags);
}

/* A node looks like the character device that it stands for. */
static unsigned int device_numbers(const char *node, unsigned int *ret_minor)
{
        if (sscanf(node, "nvidia%3u", ret_minor) == 1)
                return RM_MAJOR;
        *ret_minor = CTL_MINOR;
        if (strcmp(node, "nvidiactl") == 0)
                return RM_MAJOR;
        *ret_minor = strcmp(node, "nvidia-uvm") != 0;
        return UVM_MAJOR;
}

static void stat_as_device(const char *path, struct stat *st)
{
        const char *node = node_name(path);
        unsigned int minor, major;

        if (!node || !S_ISSOCK(st->st_mode))
                return;
        major = device_numbers(node, &minor);
        st->st_mode = (st->st_mode & ~(mode_t)S_IFMT) | S_IFCHR;
        st->st_rdev = makedev(major, minor);
}

static int stat_any(int directory, const char *path, struct stat *st, int flags)
{
        char buffer[PATH_SIZE];
        int r = (int)syscall(SYS_newfstatat, directory, path_redirect(path, buffer, sizeof(buffer)), st, flags);

        if (r == 0 && path)
                stat_as_device(path, st);
        return r;
}

HOOK int stat(const char *path, struct stat *st)
{
        return stat_any(AT_FDCWD, path, st, 0);
}

HOOK int stat64(const char *path, struct stat64 *st)
{
        return stat_any(AT_FDCWD, path, (struct stat *)(void *)st, 0);
}

HOOK int lstat(const char *path, struct stat *st)
{
        return stat_any(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

HOOK int lstat64(const char *path, struct stat64 *st)
{
        return stat_any(AT_FDCWD, path, (struct stat *)(void *)st, AT_SYMLINK_NOFOLLOW);
}

HOOK int fstatat(int directory, const char *path, struct stat *st, int flags)
{
        return stat_any(directory, path, st, flags);
}

HOOK int fstatat64(int directory, const char *path, struct stat64 *st, int flags)
{
        return stat_any(directory, path, (struct stat *)(void *)st, flags);
}

HOOK int statx(int directory, const char *path, int flags, unsigned int mask, struct statx *st)
{
        const char *node = node_name(path);
        char buffer[PATH_SIZE];
        int r = (int)syscall(SYS_statx, directory, path_redirect(path, buffer, sizeof(buffer)), flags, mask, st);

        if (r < 0 || !node || !S_ISSOCK(st->stx_mode))
                return r;
        st->stx_rdev_major = device_numbers(node, &st->stx_rdev_minor);
        st->stx_mode = (uint16_t)((st->stx_mode & ~(unsigned int)S_IFMT) | S_IFCHR);
        return r;
}

/* `ls -l` calls these. */
HOOK ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
        char buffer[PATH_SIZE];

        return syscall(SYS_getxattr, path_redirect(path, buffer, sizeof(buffer)), name, value, size);
}

HOOK ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
        char buffer[PATH_SIZE];

        return syscall(SYS_lgetxattr, path_redirect(path, buffer, sizeof(buffer)), name, value, size);
}

/* For libsublet.so, which cannot see the simulator's headers: the node behind a descriptor, an enum rm_node. */
int sublet_sim_node(int fd, uint32_t *ret_minor);

HOOK int sublet_sim_node(int fd, uint32_t *ret_minor)
{
        return machine[0] ? (int)sim_node(NULL, fd, ret_minor) : (int)RM_NODE_OTHER;
}

/* ---- ioctl --------------------------------------------------------------------------------- */

HOOK int ioctl(int fd, unsigned long request, ...)
{
        void *argument;
        va_list list;
        int saved = errno, r;

        va_start(list, request);
        argument = va_arg(list, void *);
        va_end(list);

        r = (int)syscall(SYS_ioctl, fd, request, argument); /* S1 */
        if (r >= 0 || errno != ENOTTY || !machine[0] || sim_node(NULL, fd, NULL) == RM_NODE_OTHER)
                return r;
        errno = saved;
        return result_or_errno(sim_ioctl(fd, &layout, (uint32_t)request, argument));
}
