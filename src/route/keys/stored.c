/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/stored.h"

#define STORED_BUSY 2u

static struct stored_slot *slot_of(struct stored_table *table, uint64_t id, size_t i)
{
        return &table->at[((id >> 1) + i) % STORED_SLOTS];
}

/* A free one, else the oldest. */
static struct stored_slot *place_for(struct stored_table *table, uint64_t id)
{
        struct stored_slot *to = slot_of(table, id, 0);

        for (size_t i = 0; i < STORED_NEAR && to->id; i++) {
                struct stored_slot *at = slot_of(table, id, i);

                if (!at->id || at->order < to->order)
                        to = at;
        }
        return to;
}

void stored_put(struct stored_table *table, uint64_t id, const struct stored *what)
{
        struct stored_slot *to = place_for(table, id);
        uint64_t is = atomic_load(&to->id), order = atomic_fetch_add(&table->order, 1) + 1;

        if (!atomic_compare_exchange_strong(&to->id, &is, STORED_BUSY))
                return; /* another one was faster, and this one is forgotten */
        to->what = *what;
        atomic_store(&to->order, order);
        atomic_store(&to->id, id);
}

/* What was copied is whole if the id is still there afterwards, and nobody else has it then. */
bool stored_take(struct stored_table *table, uint64_t id, struct stored *ret)
{
        for (size_t i = 0; i < STORED_NEAR; i++) {
                struct stored_slot *at = slot_of(table, id, i);
                uint64_t is = id;

                if (atomic_load(&at->id) != id)
                        continue;
                *ret = at->what;
                if (atomic_compare_exchange_strong(&at->id, &is, 0))
                        return true;
        }
        return false;
}
