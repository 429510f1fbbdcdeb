/* SPDX-License-Identifier: Apache-2.0 */
/* What a space of UVM keeps of objects that may be freed meanwhile: by a key, and by the device that it is on. */
#include "lease/inside.h"

void ledger_retain(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint64_t key, uint64_t where,
                   uint32_t client, uint32_t handle)
{
        const struct node *node = ledger_node(ledger, client, handle);

        if (node && node->memory)
                hold_put(&ledger->retained, entry, space, key, 0, node->memory)->where = where;
        (void)ledger_entry_free(ledger, entry);
}

void ledger_let_go(struct ledger *ledger, uint64_t space, uint64_t key)
{
        struct hold *hold;

        while ((hold = hold_at(&ledger->retained, space, key)) != NULL)
                hold_gone(ledger, &ledger->retained, hold);
}

void ledger_let_go_where(struct ledger *ledger, uint64_t space, uint64_t where)
{
        struct hold *hold = hold_from(&ledger->retained, space, 0);

        while (hold) {
                struct tree_node *next = tree_next(&hold->node);

                if (hold->where == where)
                        hold_gone(ledger, &ledger->retained, hold);
                hold = next && next->key.high == space ? OWNER_OF(next, struct hold, node) : NULL;
        }
}
