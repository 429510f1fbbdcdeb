/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: which driver file is behind one, and what leaves the ledger when the last one is closed (H5). The
 * library's own descriptors, at fixed numbers, are protected from a program that closes everything: otherwise the
 * programs that it executes would have no lease.
 *
 * A descriptor closed without libc is noticed when its number is used again; until then its charges stand.
 */
#include "preload/inside.h"
#include "preload/next.h"
#include "preload/lease_descriptor.h"

#include "base/cleanup.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum {
        KCMP_FILE_ = 0, /* linux/kcmp.h */
};

/* ---- the table: with the lock --------------------------------------------------------------------------- */

static size_t index_of(const struct preload *preload, int fd)
{
        size_t i = 0;

        while (i < preload->n_files && preload->files[i].fd != fd)
                i++;
        return i;
}

static bool same_file(int a, int b)
{
        pid_t self = getpid();

        return syscall(SYS_kcmp, self, self, KCMP_FILE_, (unsigned long)a, (unsigned long)b) == 0;
}

static bool file_put(struct preload *preload, int fd, uint64_t number)
{
        if (preload->n_files == PRELOAD_FILES_MAX)
                return false;
        preload->files[preload->n_files++] = (struct preload_file){ fd, number };
        return true;
}

/* A duplicate made by fcntl or received in a message is recognised if the kernel supports kcmp. */
static uint64_t file_find(struct preload *preload, int fd)
{
        size_t i = index_of(preload, fd);

        if (i < preload->n_files)
                return preload->files[i].number;
        for (i = 0; i < preload->n_files; i++)
                if (same_file(fd, preload->files[i].fd))
                        return file_put(preload, fd, preload->files[i].number) ? preload->files[i].number : 0;
        return 0;
}

uint64_t files_lookup(struct preload *preload, int fd)
{
        LOCKED(&preload->lock);

        return file_find(preload, fd);
}

uint64_t files_number(struct preload *preload, int fd)
{
        LOCKED(&preload->lock);
        uint64_t number = file_find(preload, fd);

        if (number)
                return number;
        return file_put(preload, fd, preload->last_number + 1) ? ++preload->last_number : 0;
}

/* Returns the file's number if this was its last descriptor, else 0. */
static uint64_t file_forget(struct preload *preload, int fd)
{
        size_t i = index_of(preload, fd);
        uint64_t number;

        if (i == preload->n_files)
                return 0;
        number = preload->files[i].number;
        preload->files[i] = preload->files[--preload->n_files];
        for (i = 0; i < preload->n_files; i++)
                if (preload->files[i].number == number)
                        return 0;
        return number;
}

static void file_gone(struct preload *preload, uint64_t number)
{
        LOCKED(&preload->gate.ledger_lock);

        for (size_t i = 0; i < preload->n_clients;)
                if (preload->clients[i].number == number) {
                        ledger_client_gone(preload->gate.ledger, preload->clients[i].client);
                        preload->clients[i] = preload->clients[--preload->n_clients];
                } else {
                        i++;
                }
        ledger_space_gone(preload->gate.ledger, number);
        ledger_export_gone(preload->gate.ledger, number);
        preload->n_managed = ledger_totals(preload->gate.ledger).n_managed;
}

/* ---- around the calls -------------------------------------------------------------------------------------- */

/* No program makes such a file at that number by accident. */
static bool is_sealed(int fd)
{
        int saved = errno, seals = fcntl(fd, F_GET_SEALS), all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

        errno = saved;
        return seals >= 0 && (seals & all) == all;
}

static bool is_ours(int fd)
{
        const struct preload *preload = preload_here;

        if (preload && preload->usage.segment && fd == preload->usage.fd)
                return true;
        return (fd == LEASE_DESCRIPTOR_FD || fd == LEASE_DESCRIPTOR_SEGMENT_FD) && is_sealed(fd);
}

/* H5: forgotten before the close, so that a new descriptor with the number is not taken for it; uncharged after. */
static int close_locked(struct preload *preload, int fd)
{
        LOCKED(&preload->lock);
        uint64_t number = file_forget(preload, fd);
        int r = next_close(fd) < 0 ? -errno : 0;

        if (number)
                file_gone(preload, number);
        return r;
}

static int close_known(struct preload *preload, int fd)
{
        struct preload_guard guard = preload_enter();
        int r = close_locked(preload, fd);

        preload_leave(&guard);
        if (r == 0)
                return 0;
        errno = -r;
        return -1;
}

EXPORTED int close(int fd)
{
        struct preload *preload = preload_peek();

        if (fd >= 0 && is_ours(fd)) {
                errno = EBADF;
                return -1;
        }
        return preload && index_of(preload, fd) < preload->n_files ? close_known(preload, fd) : next_close(fd);
}

/* After dup: the kernel has closed `to`, if it was open, and put the file of `from` there. */
static void replaced(int from, int to)
{
        struct preload *preload = preload_peek();
        struct preload_guard guard;

        if (!preload || !preload->n_files || from == to)
                return;
        guard = preload_enter();
        {
                LOCKED(&preload->lock);
                uint64_t gone = file_forget(preload, to);
                size_t i = index_of(preload, from);

                if (i < preload->n_files)
                        (void)file_put(preload, to, preload->files[i].number);
                if (gone)
                        file_gone(preload, gone);
        }
        preload_leave(&guard);
}

EXPORTED int dup(int fd)
{
        int r = (int)syscall(SYS_dup, fd);

        if (r >= 0)
                replaced(fd, r);
        return r;
}

static int duplicate_to(int from, int to, int flags, long call)
{
        int r;

        if (from != to && is_ours(to)) {
                errno = EBADF;
                return -1;
        }
        r = (int)syscall(call, from, to, flags);
        if (r >= 0)
                replaced(from, to);
        return r;
}

EXPORTED int dup2(int from, int to)
{
        return duplicate_to(from, to, 0, SYS_dup2);
}

/* The kernel refuses equal numbers. */
EXPORTED int dup3(int from, int to, int flags)
{
        return duplicate_to(from, to, flags, SYS_dup3);
}

/* ---- many at once ------------------------------------------------------------------------------------------- */

static void range_gone(unsigned int first, unsigned int last)
{
        struct preload *preload = preload_peek();
        struct preload_guard guard;

        if (!preload || !preload->n_files)
                return;
        guard = preload_enter();
        {
                LOCKED(&preload->lock);
                for (size_t i = 0; i < preload->n_files;) {
                        unsigned int fd = (unsigned int)preload->files[i].fd;
                        uint64_t number;

                        if (fd < first || fd > last) {
                                i++;
                                continue;
                        }
                        number = file_forget(preload, (int)fd);
                        if (number)
                                file_gone(preload, number);
                }
        }
        preload_leave(&guard);
}

/* Closes the ranges between the library's own descriptors. */
EXPORTED int close_range(unsigned int first, unsigned int last, int flags)
{
        unsigned int from = first;
        int r = 0;

        for (unsigned int fd = LEASE_DESCRIPTOR_FD_FIRST; fd < LEASE_DESCRIPTOR_FD_END && r == 0; fd++) {
                if (fd < first || fd > last || !is_ours((int)fd))
                        continue;
                if (fd > from)
                        r = (int)syscall(SYS_close_range, from, fd - 1, flags);
                from = fd + 1;
        }
        if (r == 0 && from <= last)
                r = (int)syscall(SYS_close_range, from, last, flags);
        else if (first > last)
                errno = EINVAL, r = -1;
        if (r == 0 && !((unsigned int)flags & CLOSE_RANGE_CLOEXEC))
                range_gone(first, last);
        return r;
}

EXPORTED void closefrom(int first)
{
        struct rlimit limit = { .rlim_cur = 1024 };

        if (close_range(first < 0 ? 0 : (unsigned int)first, UINT_MAX, 0) == 0)
                return;
        (void)getrlimit(RLIMIT_NOFILE, &limit); /* a kernel before 5.9 */
        for (int fd = first < 0 ? 0 : first; fd < (int)limit.rlim_cur; fd++)
                (void)close(fd);
}
