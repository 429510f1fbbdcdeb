/*
 * Managed memory, which is a shared mapping of a UVM descriptor: charged at its length on every device of the lease,
 * as the gate does (gate/managed.c says what a program hears, and why). Here the mapping is made by us, so its
 * charge stands if it does, and goes with munmap.
 */
#undef _FILE_OFFSET_BITS /* it would rename what is defined here */

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

static void give_back(struct hook *hook, struct prepaid *paid)
{
        LOCKED(&hook->gate.ledger_lock);

        for (unsigned int i = 0; i < paid->n; i++) {
                charge_drop(&paid->charges[i]);
                (void)ledger_entry_free(hook->gate.ledger, paid->entries[i]);
        }
}

static int pay(struct hook *hook, bytes size, struct prepaid *paid)
{
        int r = 0;

        for (unsigned int i = 0; i < hook->lease.n_devices && r == 0; i++) {
                if (!hook->lease.devices[i].is_granted)
                        continue;
                if (quota_take(&hook->lease.devices[i].quota, size, &paid->charges[paid->n]) != QUOTA_OK) {
                        r = -EPERM;
                        break;
                }
                LOCKED(&hook->gate.ledger_lock);
                r = ledger_entry_new(hook->gate.ledger, &paid->entries[paid->n]);
                paid->n++; /* an entry that is not there is freed as one that is */
        }
        if (r < 0)
                give_back(hook, paid);
        return r;
}

static void keep(struct hook *hook, struct prepaid *paid, uint64_t space, uintptr_t base, size_t length)
{
        LOCKED(&hook->gate.ledger_lock);

        for (unsigned int i = 0; i < paid->n; i++)
                ledger_managed_put(hook->gate.ledger, paid->entries[i], space, (uint32_t)hook->process.id, base, length,
                                   clock_now(), TAKE(paid->charges[i]));
        if (!hook->n_managed++ || base < hook->managed_from)
                hook->managed_from = base;
        if (base + length > hook->managed_to)
                hook->managed_to = base + length;
}

static bool is_pool(struct hook *hook, uint64_t space, void *address, size_t length)
{
        LOCKED(&hook->gate.ledger_lock);

        return ledger_has_pool(hook->gate.ledger, space, (uintptr_t)address, length);
}

/* UVM's own conditions: shared, readable and writable, offset == address. */
static bool could_be_managed(void *address, int prot, off_t offset)
{
        return (prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE) && (uintptr_t)address == (uintptr_t)offset;
}

int managed_map(struct hook *hook, int fd, void *address, size_t length, int prot, int flags, off_t offset, void **ret)
{
        struct prepaid paid = { .n = 0 };
        uint64_t space = files_lookup(hook, fd);
        int r;

        length = (length + 4095) & ~(size_t)4095;
        if (!could_be_managed(address, prot, offset))
                return -EINVAL;
        if (!space)
                return -EBADFD;
        if (!is_pool(hook, space, address, length) && hook->lease.managed != LEASE_MANAGED_ALLOW) {
                if (hook->lease.managed == LEASE_MANAGED_DENY)
                        return -EOPNOTSUPP;
                r = pay(hook, length, &paid);
                if (r < 0)
                        return -EPERM;
        }
        *ret = next_mmap(address, length, prot, flags, fd, offset);
        if (*ret == MAP_FAILED) {
                r = -errno;
                give_back(hook, &paid);
                return r;
        }
        if (paid.n)
                keep(hook, &paid, space, (uintptr_t)*ret, length);
        return 0;
}

void managed_unmapped(struct hook *hook, uintptr_t from, size_t length)
{
        uint64_t space, base, size;
        LOCKED(&hook->gate.ledger_lock);

        for (size_t i = 0;
             ledger_managed_next(hook->gate.ledger, (uint32_t)hook->process.id, &i, &space, &base, &size);)
                if (from <= base && base + size <= from + length)
                        ledger_managed_gone(hook->gate.ledger, (uint32_t)hook->process.id, base);
        hook->n_managed = ledger_totals(hook->gate.ledger).n_managed;
        if (!hook->n_managed)
                hook->managed_from = hook->managed_to = 0;
}

/* ---- the symbols ------------------------------------------------------------------------------------------ */

static int map(int fd, void *address, size_t length, int prot, int flags, off_t offset, enum rm_node node, void **ret)
{
        struct hook_guard guard = hook_enter();
        struct hook *hook = hook_get();
        int r = -EPERM;

        if (hook && node == RM_NODE_UVM)
                r = managed_map(hook, fd, address, length, prot, flags, offset, ret);
        hook_leave(&guard);
        return r;
}

HOOK void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
        uint32_t minor;
        enum rm_node node = fd < 0 || flags & MAP_ANONYMOUS ? RM_NODE_OTHER : hook_node(fd, &minor);
        void *at = MAP_FAILED;
        int r;

        if (node == RM_NODE_OTHER || node == RM_NODE_CTL || node == RM_NODE_DEVICE)
                return next_mmap(address, length, prot, flags, fd, offset);
        r = map(fd, address, length, prot, flags, offset, node, &at);
        if (r == 0)
                return at;
        errno = -r;
        return MAP_FAILED;
}

HOOK void *mmap64(void *address, size_t length, int prot, int flags, int fd, off64_t offset)
{
        return mmap(address, length, prot, flags, fd, offset);
}

HOOK int munmap(void *address, size_t length)
{
        struct hook *hook = hook_here && hook_here->n_managed ? hook_peek() : NULL;
        uintptr_t from = (uintptr_t)address;
        struct hook_guard guard;
        int r;

        length = (length + 4095) & ~(size_t)4095;
        if (!hook || from >= hook->managed_to || from + length <= hook->managed_from)
                return next_munmap(address, length);
        r = next_munmap(address, length);
        if (r < 0)
                return r;
        guard = hook_enter();
        managed_unmapped(hook, from, length);
        hook_leave(&guard);
        return r;
}
