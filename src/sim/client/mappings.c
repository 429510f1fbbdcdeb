/* SPDX-License-Identifier: Apache-2.0 */
/* libsublet-sim.so: the calls that make, move and end mappings of the nodes (preload.c, S1 to S4). */
#undef _FILE_OFFSET_BITS /* it would rename what is defined here: each by its own name */

#include "base/cleanup.h"
#include "sim/client/client.h"
#include "sim/client/hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        RANGES_MAX = 4096,
        FIRST_KEPT = 512, /* away from the numbers that programs expect to be given */
        PAGE_SHIFT = 12,
};

/* Ranges of this process. UVM's: their munmap is reported to the server. Others keep the open file that they were
 * mapped through, as the kernel does: a second descriptor of it, closed with them. */
static struct range {
        _Atomic uintptr_t base; /* 0: free; 1: being written */
        size_t length;
        int fd;
        bool is_uvm;
        pid_t pid;
} ranges[RANGES_MAX];
static atomic_uint n_ranges;

/* A range beyond RANGES_MAX is not recorded; its memory is freed when the VA space ends. */
static void range_put(uintptr_t base, size_t length, int fd, bool is_uvm)
{
        if (!is_uvm)
                fd = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_KEPT);
        if (fd < 0)
                return;
        for (size_t i = 0; i < RANGES_MAX; i++) {
                uintptr_t none = 0;

                if (!atomic_compare_exchange_strong(&ranges[i].base, &none, 1))
                        continue;
                ranges[i].length = length;
                ranges[i].fd = fd;
                ranges[i].is_uvm = is_uvm;
                ranges[i].pid = getpid();
                atomic_fetch_add(&n_ranges, 1);
                atomic_store(&ranges[i].base, base);
                return;
        }
}

static void ranges_unmap(uintptr_t base, size_t length)
{
        for (size_t i = 0; i < RANGES_MAX; i++) {
                uintptr_t at = atomic_load(&ranges[i].base);

                if (at <= 1 || at >= base + length || base >= at + ranges[i].length || ranges[i].pid != getpid())
                        continue;
                if (ranges[i].is_uvm)
                        (void)sim_munmap(ranges[i].fd, (void *)base, length);
                if (at < base || at + ranges[i].length > base + length)
                        continue; /* a part of it stays */
                if (!atomic_compare_exchange_strong(&ranges[i].base, &at, 1))
                        continue;
                if (!ranges[i].is_uvm)
                        (void)syscall(SYS_close, ranges[i].fd);
                atomic_store(&ranges[i].base, 0);
                atomic_fetch_sub(&n_ranges, 1);
        }
}

/* S1. The kernel unmaps what is there before it finds that it cannot map a socket; then another thread's stack could
 * begin there, and be replaced. So nothing may be replaced where a node is asked about. */
static void *ask_kernel(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
        bool is_node = (flags & MAP_FIXED) && fd >= 0 && sim_is_on() && sim_node(NULL, fd, NULL) != RM_NODE_OTHER;
        void *at;

        if (is_node)
                flags = (flags & ~MAP_FIXED) | MAP_FIXED_NOREPLACE;
        at = (void *)syscall(SYS_mmap, address, length, prot, flags, fd, offset);
        if (is_node && at == MAP_FAILED && errno == EEXIST)
                errno = ENODEV;
        return at;
}

HOOK void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
        int saved = errno;
        bool is_uvm = false;
        void *at = ask_kernel(address, length, prot, flags, fd, offset);
        intptr_t r;

        if (at != MAP_FAILED || errno != ENODEV || !sim_is_on() || fd < 0 || sim_node(NULL, fd, NULL) == RM_NODE_OTHER)
                return at;
        errno = saved;
        r = sim_mmap(fd, address, length, prot, flags, offset, &is_uvm);
        if (r < 0 && r > -4096) {
                errno = (int)-r;
                return MAP_FAILED;
        }
        if (is_uvm || sim_node(NULL, fd, NULL) == RM_NODE_CTL)
                range_put((uintptr_t)r, length, fd, is_uvm);
        return (void *)r;
}

ALIAS(mmap) void *mmap64(void *address, size_t length, int prot, int flags, int fd, off64_t offset);

HOOK int munmap(void *address, size_t length)
{
        int r = (int)syscall(SYS_munmap, address, length), saved = errno;

        if (r == 0 && atomic_load(&n_ranges))
                ranges_unmap((uintptr_t)address, length);
        errno = saved;
        return r;
}

/* The descriptor of UVM through which all of it was mapped, or -1. */
static int uvm_of(uintptr_t base, size_t length)
{
        for (size_t i = 0; i < RANGES_MAX && atomic_load(&n_ranges); i++) {
                uintptr_t at = atomic_load(&ranges[i].base);

                if (at > 1 && ranges[i].is_uvm && ranges[i].pid == getpid() && base >= at &&
                    base + length <= at + ranges[i].length)
                        return ranges[i].fd;
        }
        return -1;
}

/* UVM's range ends; the new place is a mapping of its file with nothing behind it. */
static void ranges_move(uintptr_t from, size_t length, uintptr_t to, size_t new_length)
{
        int uvm = uvm_of(from, length);

        if (from == to)
                return;
        ranges_unmap(from, length);
        if (uvm >= 0)
                range_put(to, new_length, uvm, true);
}

HOOK void *mremap(void *address, size_t length, size_t new_length, int flags, ...)
{
        void *to = NULL, *at;
        int saved = errno;
        va_list list;

        va_start(list, flags);
        if (flags & MREMAP_FIXED)
                to = va_arg(list, void *);
        va_end(list);
        at = (void *)syscall(SYS_mremap, address, length, new_length, flags, to);
        if (at == MAP_FAILED)
                return at;
        if (atomic_load(&n_ranges))
                ranges_move((uintptr_t)address, length, (uintptr_t)at, new_length);
        errno = saved;
        return at;
}

/* The kernel maps the file anew, which calls the driver. */
HOOK int remap_file_pages(void *address, size_t length, int prot, size_t page, int flags)
{
        int r = (int)syscall(SYS_remap_file_pages, address, length, prot, page, flags), saved = errno, uvm; /* S1 */
        bool is_uvm = false;
        intptr_t at;

        if (r < 0 || (uvm = uvm_of((uintptr_t)address, length)) < 0)
                return r;
        ranges_unmap((uintptr_t)address, length);
        at = sim_mmap(uvm, address, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      (int64_t)(page << PAGE_SHIFT), &is_uvm);
        errno = saved;
        if (at < 0 && at > -4096) {
                errno = (int)-at;
                return -1;
        }
        range_put((uintptr_t)address, length, uvm, is_uvm);
        return 0;
}
