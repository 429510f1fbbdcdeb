/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory is a shared mapping of a UVM descriptor. It is charged at its length on every device of the lease, as
 * in the gate (gate/managed.c says which error a program gets, and why). The library makes the mapping itself, so the
 * charge exists exactly if the mapping does, and is returned by munmap.
 */
#undef _FILE_OFFSET_BITS /* it would rename mmap and mmap64 below */

#include "preload/inside.h"
#include "preload/next.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <sys/mman.h>

struct prepaid {
        struct charge charges[LEASE_DEVICES_MAX];
        struct ledger_entry *entries[LEASE_DEVICES_MAX];
        unsigned int n;
};

static void prepaid_return(struct preload *preload, struct prepaid *paid)
{
        LOCKED(&preload->gate.ledger_lock);

        for (unsigned int i = 0; i < paid->n; i++) {
                charge_drop(&paid->charges[i]);
                (void)ledger_entry_free(preload->gate.ledger, paid->entries[i]);
        }
}

static int managed_pay(struct preload *preload, bytes size, struct prepaid *paid)
{
        int r = 0;

        for (unsigned int i = 0; i < preload->lease.n_devices && r == 0; i++) {
                if (!preload->lease.devices[i].is_granted)
                        continue;
                if (quota_take(&preload->lease.devices[i].quota, size, &paid->charges[paid->n]) != QUOTA_OK) {
                        r = -EPERM;
                        break;
                }
                LOCKED(&preload->gate.ledger_lock);
                r = ledger_entry_new(preload->gate.ledger, &paid->entries[paid->n]);
                paid->n++; /* freeing an entry that was not made is harmless */
        }
        if (r < 0)
                prepaid_return(preload, paid);
        return r;
}

static void managed_keep(struct preload *preload, struct prepaid *paid, uint64_t space, uintptr_t base, size_t length)
{
        LOCKED(&preload->gate.ledger_lock);

        for (unsigned int i = 0; i < paid->n; i++)
                ledger_managed_put(preload->gate.ledger, paid->entries[i], space, (uint32_t)preload->process.id, base,
                                   length, clock_now(), TAKE(paid->charges[i]));
        if (!preload->n_managed++ || base < preload->managed_from)
                preload->managed_from = base;
        if (base + length > preload->managed_to)
                preload->managed_to = base + length;
}

static bool is_pool(struct preload *preload, uint64_t space, void *address, size_t length)
{
        LOCKED(&preload->gate.ledger_lock);

        return ledger_has_pool(preload->gate.ledger, space, (uintptr_t)address, length);
}

/* UVM's conditions for managed memory: shared, readable and writable, offset == address. */
static bool could_be_managed(void *address, int prot, off_t offset)
{
        return (prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE) && (uintptr_t)address == (uintptr_t)offset;
}

static int managed_map(struct preload *preload, int fd, void *address, size_t length, int prot, int flags, off_t offset,
                       void **ret)
{
        struct prepaid paid = { .n = 0 };
        uint64_t space = files_lookup(preload, fd);
        int r;

        length = (length + 4095) & ~(size_t)4095;
        if (!could_be_managed(address, prot, offset))
                return -EINVAL;
        if (!space)
                return -EBADFD;
        if (!is_pool(preload, space, address, length) && preload->lease.managed != LEASE_MANAGED_ALLOW) {
                if (preload->lease.managed == LEASE_MANAGED_DENY)
                        return -EOPNOTSUPP;
                r = managed_pay(preload, length, &paid);
                if (r < 0)
                        return -EPERM;
        }
        *ret = next_mmap(address, length, prot, flags, fd, offset);
        if (*ret == MAP_FAILED) {
                r = -errno;
                prepaid_return(preload, &paid);
                return r;
        }
        if (paid.n)
                managed_keep(preload, &paid, space, (uintptr_t)*ret, length);
        return 0;
}

static void managed_unmapped(struct preload *preload, uintptr_t from, size_t length)
{
        uint64_t space, base, size;
        LOCKED(&preload->gate.ledger_lock);

        for (size_t i = 0;
             ledger_managed_next(preload->gate.ledger, (uint32_t)preload->process.id, &i, &space, &base, &size);)
                if (from <= base && base + size <= from + length)
                        ledger_managed_gone(preload->gate.ledger, (uint32_t)preload->process.id, base);
        preload->n_managed = ledger_totals(preload->gate.ledger).n_managed;
        if (!preload->n_managed)
                preload->managed_from = preload->managed_to = 0;
}

/* ---- the symbols ------------------------------------------------------------------------------------------ */

static int managed_serve(int fd, void *address, size_t length, int prot, int flags, off_t offset, enum rm_node node,
                         void **ret)
{
        struct preload_guard guard = preload_enter();
        struct preload *preload = preload_get();
        int r = -EPERM;

        if (preload && node == RM_NODE_UVM)
                r = managed_map(preload, fd, address, length, prot, flags, offset, ret);
        preload_leave(&guard);
        return r;
}

EXPORTED void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
        uint32_t minor;
        enum rm_node node = fd < 0 || flags & MAP_ANONYMOUS ? RM_NODE_OTHER : preload_node(fd, &minor);
        void *at = MAP_FAILED;
        int r;

        if (node == RM_NODE_OTHER || node == RM_NODE_CTL || node == RM_NODE_DEVICE)
                return next_mmap(address, length, prot, flags, fd, offset);
        r = managed_serve(fd, address, length, prot, flags, offset, node, &at);
        if (r == 0)
                return at;
        errno = -r;
        return MAP_FAILED;
}

EXPORTED void *mmap64(void *address, size_t length, int prot, int flags, int fd, off64_t offset)
{
        return mmap(address, length, prot, flags, fd, offset);
}

EXPORTED int munmap(void *address, size_t length)
{
        struct preload *preload = preload_here && preload_here->n_managed ? preload_peek() : NULL;
        uintptr_t from = (uintptr_t)address;
        struct preload_guard guard;
        int r;

        length = (length + 4095) & ~(size_t)4095;
        if (!preload || from >= preload->managed_to || from + length <= preload->managed_from)
                return next_munmap(address, length);
        r = next_munmap(address, length);
        if (r < 0)
                return r;
        guard = preload_enter();
        managed_unmapped(preload, from, length);
        preload_leave(&guard);
        return r;
}
