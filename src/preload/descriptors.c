/*
 * Descriptors: which file of the driver is behind one, and what goes when its last is closed (H5). And ours, at fixed
 * numbers, which a program that closes whatever is open must not close: the programs that it executes would have no
 * lease then.
 *
 * A descriptor closed past libc is noticed when its number comes up again; until then its charges stand.
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

static size_t index_of(const struct hook *hook, int fd)
{
        size_t i = 0;

        while (i < hook->n_files && hook->files[i].fd != fd)
                i++;
        return i;
}

static bool same_file(int a, int b)
{
        pid_t self = getpid();

        return syscall(SYS_kcmp, self, self, KCMP_FILE_, (unsigned long)a, (unsigned long)b) == 0;
}

static bool put(struct hook *hook, int fd, uint64_t number)
{
        if (hook->n_files == HOOK_FILES)
                return false;
        hook->files[hook->n_files++] = (struct hook_file){ fd, number };
        return true;
}

/* One that fcntl or a message duplicated is recognised where the kernel compares. */
static uint64_t find(struct hook *hook, int fd)
{
        size_t i = index_of(hook, fd);

        if (i < hook->n_files)
                return hook->files[i].number;
        for (i = 0; i < hook->n_files; i++)
                if (same_file(fd, hook->files[i].fd))
                        return put(hook, fd, hook->files[i].number) ? hook->files[i].number : 0;
        return 0;
}

uint64_t files_lookup(struct hook *hook, int fd)
{
        LOCKED(&hook->lock);

        return find(hook, fd);
}

uint64_t files_number(struct hook *hook, int fd)
{
        LOCKED(&hook->lock);
        uint64_t number = find(hook, fd);

        if (number)
                return number;
        return put(hook, fd, hook->last_number + 1) ? ++hook->last_number : 0;
}

/* The number whose last descriptor it was, or 0. */
static uint64_t forget(struct hook *hook, int fd)
{
        size_t i = index_of(hook, fd);
        uint64_t number;

        if (i == hook->n_files)
                return 0;
        number = hook->files[i].number;
        hook->files[i] = hook->files[--hook->n_files];
        for (i = 0; i < hook->n_files; i++)
                if (hook->files[i].number == number)
                        return 0;
        return number;
}

static void file_gone(struct hook *hook, uint64_t number)
{
        LOCKED(&hook->gate.ledger_lock);

        for (size_t i = 0; i < hook->n_clients;)
                if (hook->clients[i].number == number) {
                        ledger_client_gone(hook->gate.ledger, hook->clients[i].client);
                        hook->clients[i] = hook->clients[--hook->n_clients];
                } else {
                        i++;
                }
        ledger_space_gone(hook->gate.ledger, number);
        ledger_export_gone(hook->gate.ledger, number);
        hook->n_managed = ledger_totals(hook->gate.ledger).n_managed;
}

/* ---- around the calls -------------------------------------------------------------------------------------- */

/* What a program cannot have made by accident at that number. */
static bool is_sealed(int fd)
{
        int saved = errno, seals = fcntl(fd, F_GET_SEALS), all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

        errno = saved;
        return seals >= 0 && (seals & all) == all;
}

static bool is_ours(int fd)
{
        const struct hook *hook = hook_here;

        if (hook && hook->seat.segment && fd == hook->seat.fd)
                return true;
        return (fd == LEASE_DESCRIPTOR_FD || fd == LEASE_DESCRIPTOR_SEGMENT_FD) && is_sealed(fd);
}

/* H5: forgotten first, so that nobody takes a new descriptor of the number for it; uncharged when it is closed. */
static int close_locked(struct hook *hook, int fd)
{
        LOCKED(&hook->lock);
        uint64_t number = forget(hook, fd);
        int r = next_close(fd) < 0 ? -errno : 0;

        if (number)
                file_gone(hook, number);
        return r;
}

static int close_known(struct hook *hook, int fd)
{
        struct hook_guard guard = hook_enter();
        int r = close_locked(hook, fd);

        hook_leave(&guard);
        if (r == 0)
                return 0;
        errno = -r;
        return -1;
}

HOOK int close(int fd)
{
        struct hook *hook = hook_peek();

        if (fd >= 0 && is_ours(fd)) {
                errno = EBADF;
                return -1;
        }
        return hook && index_of(hook, fd) < hook->n_files ? close_known(hook, fd) : next_close(fd);
}

/* After something was put on a number, or taken from it, by the kernel at once. */
static void replaced(int from, int to)
{
        struct hook *hook = hook_peek();
        struct hook_guard guard;

        if (!hook || !hook->n_files || from == to)
                return;
        guard = hook_enter();
        {
                LOCKED(&hook->lock);
                uint64_t gone = forget(hook, to);
                size_t i = index_of(hook, from);

                if (i < hook->n_files)
                        (void)put(hook, to, hook->files[i].number);
                if (gone)
                        file_gone(hook, gone);
        }
        hook_leave(&guard);
}

HOOK int dup(int fd)
{
        int r = (int)syscall(SYS_dup, fd);

        if (r >= 0)
                replaced(fd, r);
        return r;
}

HOOK int dup2(int from, int to)
{
        int r;

        if (from != to && is_ours(to)) {
                errno = EBADF;
                return -1;
        }
        r = (int)syscall(SYS_dup2, from, to);
        if (r >= 0)
                replaced(from, to);
        return r;
}

HOOK int dup3(int from, int to, int flags)
{
        int r;

        if (is_ours(to)) {
                errno = EBADF;
                return -1;
        }
        r = (int)syscall(SYS_dup3, from, to, flags);
        if (r >= 0)
                replaced(from, to);
        return r;
}

/* ---- many at once ------------------------------------------------------------------------------------------- */

static void range_gone(unsigned int first, unsigned int last)
{
        struct hook *hook = hook_peek();
        struct hook_guard guard;

        if (!hook || !hook->n_files)
                return;
        guard = hook_enter();
        {
                LOCKED(&hook->lock);
                for (size_t i = 0; i < hook->n_files;) {
                        unsigned int fd = (unsigned int)hook->files[i].fd;
                        uint64_t number;

                        if (fd < first || fd > last) {
                                i++;
                                continue;
                        }
                        number = forget(hook, (int)fd);
                        if (number)
                                file_gone(hook, number);
                }
        }
        hook_leave(&guard);
}

/* The parts between ours. */
HOOK int close_range(unsigned int first, unsigned int last, int flags)
{
        unsigned int from = first;
        int r = 0;

        for (unsigned int fd = 900; fd < 1024 && r == 0; fd++) { /* where ours can be */
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

HOOK void closefrom(int first)
{
        struct rlimit limit = { .rlim_cur = 1024 };

        if (close_range(first < 0 ? 0 : (unsigned int)first, UINT_MAX, 0) == 0)
                return;
        (void)getrlimit(RLIMIT_NOFILE, &limit); /* a kernel before 5.9 */
        for (int fd = first < 0 ? 0 : first; fd < (int)limit.rlim_cur; fd++)
                (void)close(fd);
}
