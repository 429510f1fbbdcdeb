/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memories, and what holds them beside objects: mappings of UVM spaces, exports and managed ranges. All three are
 * holds in an ordered tree; what differs is the key.
 */
#include "lease/inside.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* Memories. */

struct memory *memory_new_over(struct ledger *ledger, struct ledger_entry *entry, uint32_t owner, struct charge charge,
                               struct memory *below)
{
        struct memory *memory = TAKE(entry->memory);

        *memory = (struct memory){ .charge = charge, .owner = owner, .below = memory_hold(below) };
        list_put(&ledger->memories, &memory->all);
        ledger->n_memories++;
        return memory;
}

struct memory *memory_new(struct ledger *ledger, struct ledger_entry *entry, uint32_t owner, struct charge charge)
{
        return charge.quota ? memory_new_over(ledger, entry, owner, charge, NULL) : NULL;
}

struct memory *memory_hold(struct memory *memory)
{
        if (memory)
                memory->n_holders++;
        return memory;
}

void memory_drop(struct ledger *ledger, struct memory *memory)
{
        struct memory *below;

        for (; memory && --memory->n_holders == 0; memory = below) {
                below = memory->below;
                if (memory->live)
                        ledger->own[memory->device] -= memory->charge.size;
                charge_drop(&memory->charge);
                list_take(&memory->all);
                ledger->n_memories--;
                if (memory->loan)
                        list_put(&ledger->returned, &memory->all);
                else
                        free(memory);
        }
}

bytes ledger_held_by(const struct ledger *ledger, const struct quota *quota, uint32_t owner)
{
        bytes sum = 0;

        for (const struct list *at = ledger->memories.next; at != &ledger->memories; at = at->next) {
                const struct memory *memory = OWNER_OF(at, struct memory, all);

                if (memory->charge.quota == quota && memory->owner == owner)
                        sum += memory->charge.size; /* cannot overflow: quota->used counts it */
        }
        return sum;
}

void ledger_held_by_each(const struct ledger *ledger, const struct quota *quota, const uint32_t *owners, size_t n,
                         bytes *ret)
{
        memset(ret, 0, n * sizeof(*ret));
        for (const struct list *at = ledger->memories.next; at != &ledger->memories; at = at->next) {
                const struct memory *memory = OWNER_OF(at, struct memory, all);

                for (size_t i = 0; i < n && memory->charge.quota == quota; i++)
                        if (memory->owner == owners[i]) {
                                ret[i] += memory->charge.size;
                                break;
                        }
        }
}

/* Holds. */

static struct hold *hold_of(struct tree_node *node)
{
        return node ? OWNER_OF(node, struct hold, node) : NULL;
}

struct hold *hold_from(const struct tree *tree, uint64_t high, uint64_t low)
{
        struct tree_node *node = tree_from(tree, (struct tree_key){ high, low });

        return node && node->key.high == high ? hold_of(node) : NULL;
}

struct hold *hold_put(struct tree *tree, struct ledger_entry *entry, uint64_t high, uint64_t low, uint64_t length,
                      struct memory *memory)
{
        struct hold *hold = &TAKE(entry->first)->hold;

        *hold = (struct hold){ .length = length, .memory = memory_hold(memory) };
        tree_put(tree, &hold->node, (struct tree_key){ high, low }, length);
        return hold;
}

void hold_gone(struct ledger *ledger, struct tree *tree, struct hold *hold)
{
        tree_take(tree, &hold->node);
        tables_gone(ledger, hold->tables, hold->tables_on);
        memory_drop(ledger, hold->memory);
        free(hold->recipe);
        free(hold);
}

static void managed_gone(struct ledger *ledger, struct hold *hold)
{
        tree_take(&ledger->managed_owned, &hold->owned);
        hold_gone(ledger, &ledger->managed, hold);
}

void holds_done(struct ledger *ledger)
{
        while (ledger->mappings.root)
                hold_gone(ledger, &ledger->mappings, hold_of(ledger->mappings.root));
        while (ledger->ranges.root)
                hold_gone(ledger, &ledger->ranges, hold_of(ledger->ranges.root));
        while (ledger->exports.root)
                hold_gone(ledger, &ledger->exports, hold_of(ledger->exports.root));
        while (ledger->retained.root)
                hold_gone(ledger, &ledger->retained, hold_of(ledger->retained.root));
        while (ledger->managed.root)
                managed_gone(ledger, hold_of(ledger->managed.root));
}

/* Mappings, and the ranges that they are made in. */

/* In terms of differences from base, so that no sum can overflow. */
static bool is_inside(const struct hold *hold, uint64_t base, uint64_t length)
{
        return hold->length <= length - (hold->node.key.low - base);
}

void ledger_unmap(struct ledger *ledger, uint64_t space, uint64_t base, uint64_t length, uint64_t where)
{
        struct hold *hold = hold_from(&ledger->mappings, space, base), *next;

        for (; hold; hold = next) {
                if (hold->node.key.high != space || hold->node.key.low - base >= length)
                        return;
                next = hold_of(tree_next(&hold->node));
                if (is_inside(hold, base, length) && (!where || hold->where == where))
                        hold_gone(ledger, &ledger->mappings, hold);
        }
}

int ledger_map(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint64_t base, uint64_t length,
               uint64_t where, uint32_t client, uint32_t handle)
{
        const struct node *node = ledger_node(ledger, client, handle);
        struct memory *memory;

        if (!node) {
                (void)ledger_entry_free(ledger, entry);
                return LEDGER_E_NO_OBJECT;
        }
        memory = node->memory;
        if (where)
                ledger_unmap(ledger, space, base, length, where); /* the object holds it meanwhile */
        hold_put(&ledger->mappings, entry, space, base, length, memory)->where = where;
        (void)ledger_entry_free(ledger, entry);
        return LEDGER_OK;
}

void ledger_range_put(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint64_t base, uint64_t length,
                      bool is_pool, struct charge charge)
{
        struct memory *memory = memory_new(ledger, entry, 0, charge);

        ledger_range_gone(ledger, space, base);
        hold_put(&ledger->ranges, entry, space, base, length, memory)->is_pool = is_pool;
        (void)ledger_entry_free(ledger, entry);
}

void ledger_range_gone(struct ledger *ledger, uint64_t space, uint64_t base)
{
        struct hold *range = hold_from(&ledger->ranges, space, base);

        if (!range || range->node.key.low != base)
                return;
        ledger_unmap(ledger, space, base, range->length, 0);
        hold_gone(ledger, &ledger->ranges, range);
}

bool ledger_range_next(const struct ledger *ledger, uint64_t space, uint64_t *base, uint64_t *ret_length)
{
        const struct hold *range = hold_from(&ledger->ranges, space, *base);

        if (!range)
                return false;
        *base = range->node.key.low;
        *ret_length = range->length;
        return true;
}

static bool is_pool_at(const struct hold *range, uint64_t base, uint64_t length)
{
        return range->is_pool && range->node.key.low == base && range->length == length;
}

bool ledger_has_pool(const struct ledger *ledger, uint64_t space, uint64_t base, uint64_t length)
{
        struct tree_node *node;

        if (space) {
                const struct hold *range = hold_from(&ledger->ranges, space, base);

                return range && is_pool_at(range, base, length);
        }
        for (node = tree_from(&ledger->ranges, (struct tree_key){ 0, 0 }); node; node = tree_next(node))
                if (is_pool_at(hold_of(node), base, length))
                        return true;
        return false;
}

void ledger_space_gone(struct ledger *ledger, uint64_t space)
{
        struct hold *hold;

        while ((hold = hold_from(&ledger->mappings, space, 0)) != NULL)
                hold_gone(ledger, &ledger->mappings, hold);
        while ((hold = hold_from(&ledger->ranges, space, 0)) != NULL)
                hold_gone(ledger, &ledger->ranges, hold);
        while ((hold = hold_from(&ledger->retained, space, 0)) != NULL)
                hold_gone(ledger, &ledger->retained, hold);
        while ((hold = hold_from(&ledger->managed, space, 0)) != NULL)
                managed_gone(ledger, hold);
}

void ledger_map_nothing(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint64_t base,
                        uint64_t length)
{
        (void)hold_put(&ledger->mappings, entry, space, base, length, NULL);
        (void)ledger_entry_free(ledger, entry);
}

struct hold *hold_at(const struct tree *tree, uint64_t space, uint64_t base)
{
        struct hold *hold = hold_from(tree, space, base);

        return hold && hold->node.key.low == base ? hold : NULL;
}

void ledger_tables_put(struct ledger *ledger, uint64_t space, uint64_t base, bytes size, uint32_t devices)
{
        struct hold *hold = hold_at(&ledger->mappings, space, base);

        hold = hold ? hold : hold_at(&ledger->ranges, space, base);
        hold = hold ? hold : hold_at(&ledger->managed, space, base);
        if (!hold)
                return; /* the charge stays */
        hold->tables = size;
        hold->tables_on = devices;
}

/* Managed ranges. */

static struct hold *managed_from(const struct ledger *ledger, uint32_t owner, uint64_t base)
{
        struct tree_node *owned = tree_from(&ledger->managed_owned, (struct tree_key){ owner, base });

        return owned && owned->key.high == owner ? OWNER_OF(owned, struct hold, owned) : NULL;
}

/* The owner's next one, if it starts at the same base: another device's, or put at another time. */
static struct hold *managed_beside(const struct hold *hold)
{
        struct tree_node *next = tree_next(&hold->owned);

        if (!next || next->key.high != hold->owned.key.high || next->key.low != hold->owned.key.low)
                return NULL;
        return OWNER_OF(next, struct hold, owned);
}

void ledger_managed_put(struct ledger *ledger, struct ledger_entry *entry, uint64_t space, uint32_t owner,
                        uint64_t base, uint64_t length, int64_t now, struct charge charge)
{
        struct hold *new = &entry->first->hold;

        hold_put(&ledger->managed, entry, space, base, length, memory_new(ledger, entry, owner, charge))->put_at = now;
        tree_put(&ledger->managed_owned, &new->owned, (struct tree_key){ owner, base }, length);
        (void)ledger_entry_free(ledger, entry);
}

struct ledger_kinds ledger_kinds(const struct ledger *ledger, const struct quota *quota, unsigned int device)
{
        struct ledger_kinds kinds = { .driver = ledger_own(ledger, device) };

        for (const struct tree_node *at = tree_from(&ledger->managed, (struct tree_key){ 0, 0 }); at;
             at = tree_next(at)) {
                const struct memory *memory = OWNER_OF(at, struct hold, node)->memory;

                if (memory && memory->charge.quota == quota)
                        kinds.managed += memory->charge.size;
        }
        return kinds;
}

bool ledger_managed_owner_next(const struct ledger *ledger, uint32_t *owner)
{
        const struct tree_node *owned =
                *owner < UINT32_MAX ? tree_from(&ledger->managed_owned, (struct tree_key){ *owner + 1ull, 0 }) : NULL;

        if (owned)
                *owner = (uint32_t)owned->key.high;
        return owned;
}

/* The range, and where to look from next: past its base. No range starts at the last address. */
static bool managed_say(const struct hold *hold, uint64_t *i, uint64_t *ret_space, uint64_t *ret_base,
                        uint64_t *ret_length)
{
        if (!hold || hold->node.key.low == UINT64_MAX)
                return false;
        *i = hold->node.key.low + 1;
        *ret_space = hold->node.key.high;
        *ret_base = hold->node.key.low;
        *ret_length = 0;
        for (; hold; hold = managed_beside(hold))
                if (hold->length > *ret_length)
                        *ret_length = hold->length;
        return true;
}

bool ledger_managed_next(const struct ledger *ledger, uint32_t owner, size_t *i, uint64_t *ret_space,
                         uint64_t *ret_base, uint64_t *ret_length)
{
        return managed_say(*i < SIZE_MAX ? managed_from(ledger, owner, *i) : NULL, i, ret_space, ret_base, ret_length);
}

bool ledger_managed_over(const struct ledger *ledger, uint32_t owner, size_t *i, uint64_t base, uint64_t length,
                         uint64_t *ret_base, uint64_t *ret_length)
{
        uint64_t last = length - 1 < UINT64_MAX - base ? base + length - 1 : UINT64_MAX, space;
        const struct tree_node *owned =
                length ? tree_over(&ledger->managed_owned, (struct tree_key){ owner, *i }, base, last) : NULL;
        const struct hold *hold = owned ? OWNER_OF(owned, struct hold, owned) : NULL;

        if (hold) /* of several at its base the first: managed_say looks at those behind it */
                hold = managed_from(ledger, owner, hold->owned.key.low);
        return managed_say(hold, i, &space, ret_base, ret_length);
}

void ledger_managed_gone(struct ledger *ledger, uint32_t owner, uint64_t base)
{
        struct hold *hold;

        while ((hold = managed_from(ledger, owner, base)) != NULL && hold->owned.key.low == base)
                managed_gone(ledger, hold);
}

bool ledger_managed_gone_before(struct ledger *ledger, uint32_t owner, uint64_t base, uint64_t length, int64_t before,
                                size_t *ret_gone)
{
        struct hold *hold = managed_from(ledger, owner, base), *next;
        bool is_left = false;

        *ret_gone = 0;
        if (!hold || hold->owned.key.low != base)
                return false;
        for (; hold; hold = next) {
                next = managed_beside(hold);
                if (hold->put_at >= before || hold->length > length) {
                        is_left = true;
                        continue;
                }
                managed_gone(ledger, hold);
                ++*ret_gone;
        }
        return is_left;
}

bool ledger_space_has_managed(const struct ledger *ledger, uint64_t space)
{
        return hold_from(&ledger->managed, space, 0);
}

/* Exports. */

int ledger_export(struct ledger *ledger, struct ledger_entry *entry, uint64_t descriptor, uint32_t index,
                  uint32_t client, uint32_t handle)
{
        const struct node *node = handle ? ledger_node(ledger, client, handle) : NULL;
        struct hold *old = hold_from(&ledger->exports, descriptor, index), *new = NULL;

        if (node) {
                new = hold_put(&ledger->exports, entry, descriptor, index, 0, node->memory);
                new->stamp = ++ledger->stamps;
                new->class_number = node->name.class_number;
                new->device = node->name.device;
        }
        if ((new || !handle) && old && old->node.key.low == index)
                hold_gone(ledger, &ledger->exports, old);
        (void)ledger_entry_free(ledger, entry);
        return node || !handle ? LEDGER_OK : LEDGER_E_NO_OBJECT;
}

void ledger_export_gone(struct ledger *ledger, uint64_t descriptor)
{
        struct hold *hold;

        while ((hold = hold_from(&ledger->exports, descriptor, 0)) != NULL)
                hold_gone(ledger, &ledger->exports, hold);
}
