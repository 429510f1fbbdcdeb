/* SPDX-License-Identifier: Apache-2.0 */
/* What many calls do with the ledger, under its lock; and the locks that keep its order the driver's. */
#include "gate/inside.h"

#include <errno.h>

static struct lock *client_lock_of(struct gate *gate, uint64_t key)
{
        return &gate->client_locks[(key * 0x9e3779b97f4a7c15u >> 40) % GATE_CLIENT_LOCKS]; /* 2^64 / golden ratio */
}

struct client_lock_pair client_locks_take(struct gate *gate, uint64_t key1, uint64_t key2)
{
        struct lock *a = client_lock_of(gate, key1), *b = client_lock_of(gate, key2);
        struct client_lock_pair locks = { a < b ? a : b, a == b ? NULL : a < b ? b : a };

        lock_take(locks.first);
        if (locks.second)
                lock_take_second(locks.second);
        return locks;
}

void client_locks_drop(struct client_lock_pair *locks)
{
        if (locks->second)
                lock_drop(locks->second);
        if (locks->first)
                lock_drop(locks->first);
        *locks = (struct client_lock_pair){ 0 };
}

static bytes memory_of(const struct lease *lease)
{
        bytes sum = 0;

        for (unsigned int i = 0; i < lease->n_devices; i++) {
                bytes size = lease->devices[i].is_granted ? atomic_load(&lease->devices[i].quota.size) : 0;

                sum = size < UINT64_MAX - sum ? sum + size : UINT64_MAX;
        }
        return sum;
}

static int entry_new(struct gate *gate, uint32_t class_number, const char **ret_what, uint32_t *ret_most,
                     struct ledger_entry **ret)
{
        LOCKED(&gate->ledger_lock);

        *ret_what = NULL;
        if (class_number && class_number != ENTRY_OF_RANGE)
                *ret_what = ledger_bound(gate->ledger, class_number, ret_most);
        else if (ledger_is_full(gate->ledger))
                *ret_what = "mappings and exports";
        else if (class_number && !ledger_has_room_for_range(gate->ledger, memory_of(gate->lease), ret_most))
                *ret_what = "ranges of addresses";
        return *ret_what ? -ENOSPC : ledger_entry_new(gate->ledger, ret);
}

int entry_take_of(struct gate *gate, uint32_t class_number, struct ledger_entry **ret)
{
        uint32_t most = 0;
        const char *what;
        int r = entry_new(gate, class_number, &what, &most, ret);

        if (what && most)
                gate_tell(gate, EVENT_DENIED, 0, "more than %u %s", most, what);
        else if (what)
                gate_tell(gate, EVENT_DENIED, 0, "too many %s", what);
        return r;
}

int entry_take(struct gate *gate, struct ledger_entry **ret)
{
        return entry_take_of(gate, 0, ret);
}

void entry_drop(struct gate *gate, struct ledger_entry *entry)
{
        LOCKED(&gate->ledger_lock);

        (void)ledger_entry_free(gate->ledger, entry);
}

bool object_get(struct gate *gate, uint32_t client, uint32_t handle, struct ledger_object *ret)
{
        LOCKED(&gate->ledger_lock);

        return ledger_get(gate->ledger, client, handle, ret) == LEDGER_OK;
}

int object_device(struct gate *gate, uint32_t client, uint32_t handle)
{
        struct ledger_object object;

        return object_get(gate, client, handle, &object) ? object.device : -1;
}
