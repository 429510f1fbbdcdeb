/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the invariants of a ledger hold (lease/ledger.h), checked from its inside. Changes nothing. */
#pragma once

#include "lease/inside.h"

#include <stdbool.h>

static inline bool tree_node_is_sound(const struct tree *tree, const struct tree_node *node)
{
        const struct tree_node *parent = node->parent;
        uint64_t reach = node->last;

        if (node->left && node->left->reach > reach)
                reach = node->left->reach;
        if (node->right && node->right->reach > reach)
                reach = node->right->reach;
        if (node->reach != reach || node->last < node->key.low)
                return false;
        if (node->left && node->left->parent != node)
                return false;
        if (node->right && node->right->parent != node)
                return false;
        return parent ? parent->priority >= node->priority : tree->root == node;
}

static inline bool tree_is_in_order(const struct tree_node *last, const struct tree_node *node)
{
        return last->key.high != node->key.high ? last->key.high < node->key.high : last->key.low <= node->key.low;
}

static inline bool tree_is_sound(const struct tree *tree)
{
        const struct tree_node *node = tree_from(tree, (struct tree_key){ 0, 0 }), *last = NULL;
        size_t n = 0;

        for (; node && n <= tree->n_nodes; last = node, node = tree_next(node), n++) {
                if (!tree_node_is_sound(tree, node) || (last && !tree_is_in_order(last, node)))
                        return false;
        }
        return n == tree->n_nodes;
}

/* The one after `last`; the first, if that is NULL; NULL at the end. */
static inline const struct memory *memory_next(const struct ledger *ledger, const struct memory *last)
{
        const struct list *next = last ? last->all.next : ledger->memories.next;

        return next == &ledger->memories ? NULL : OWNER_OF(next, struct memory, all);
}

/* The sum of the charges of one quota (L1). */
static inline bytes ledger_held(const struct ledger *ledger, const struct quota *quota)
{
        const struct memory *memory = NULL;
        bytes sum = 0;

        while ((memory = memory_next(ledger, memory)) != NULL)
                if (memory->charge.quota == quota)
                        sum += memory->charge.size;
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                if (ledger->tables[i].charge.quota == quota)
                        sum += ledger->tables[i].charge.size;
        return sum;
}

/* L4: every outstanding entry finds a slot. */
static inline bool sound_has_room(const struct map *map, size_t n_entries)
{
        return map->n_slots * 3 >= (map->n_used + n_entries) * 4;
}

/* The next node of a client's tree, parents first; NULL at the end. */
static inline const struct node *walk_next(const struct node *node)
{
        if (!list_is_empty(&node->children))
                return OWNER_OF(node->children.next, struct node, siblings);
        while (node->parent && node->siblings.next == &node->parent->children)
                node = node->parent;
        return node->parent ? OWNER_OF(node->siblings.next, struct node, siblings) : NULL;
}

static inline bool node_is_sound(const struct ledger *ledger, const struct node *node)
{
        const struct ledger_object *name = &node->name;

        if (!node->parent)
                return map_get(&ledger->clients, name->handle) == node;
        if (map_get(&ledger->objects, (uint64_t)name->client << 32 | name->handle) != node)
                return false;
        return node->parent->name.client == name->client && node->parent->name.handle == name->parent;
}

/* L2: every object hangs, through its parents, on a client that is there. */
static inline bool nodes_are_sound(const struct ledger *ledger)
{
        const struct node *client, *node;
        size_t n = 0, n_expected = ledger->clients.n_used + ledger->objects.n_used;

        for (size_t i = 0; (client = map_next(&ledger->clients, &i)) != NULL;)
                for (node = client; node; node = walk_next(node))
                        if (++n > n_expected || !node_is_sound(ledger, node))
                                return false;
        return n == n_expected;
}

static inline bool count_holder(struct map *holders, const struct memory *memory)
{
        uintptr_t n = memory ? (uintptr_t)map_take(holders, (uintptr_t)memory) : 0;

        return !memory || map_put(holders, (uintptr_t)memory, (void *)(n + 1)) == 0;
}

static inline bool count_holds(struct map *holders, const struct tree *tree)
{
        const struct tree_node *at = tree_from(tree, (struct tree_key){ 0, 0 });
        bool is_counted = true;

        for (; at; at = tree_next(at))
                is_counted &= count_holder(holders, OWNER_OF(at, struct hold, node)->memory);
        return is_counted;
}

/* L1, as far as one ledger can tell; L3. */
static inline bool memories_are_sound(const struct ledger *ledger)
{
        const struct memory *memory = NULL;
        struct map holders = { 0 };
        const struct node *node;
        bool is_sound = true;
        size_t n = 0;

        for (size_t i = 0; (node = map_next(&ledger->objects, &i)) != NULL;)
                is_sound &= count_holder(&holders, node->memory) && count_holder(&holders, node->pool);
        is_sound &= count_holds(&holders, &ledger->mappings) && count_holds(&holders, &ledger->exports) &&
                    count_holds(&holders, &ledger->managed) && count_holds(&holders, &ledger->retained);
        while ((memory = memory_next(ledger, memory)) != NULL)
                is_sound &= count_holder(&holders, memory->below);
        for (; (memory = memory_next(ledger, memory)) != NULL; n++)
                is_sound &= memory->n_holders && memory->n_holders == (size_t)map_get(&holders, (uintptr_t)memory) &&
                            (memory->charge.quota ?
                                     memory->charge.size <= memory->charge.quota->used :
                                     (memory->below || memory->loan || memory->away) && !memory->charge.size);
        is_sound &= n == ledger->n_memories && n == holders.n_used;
        map_done(&holders);
        return is_sound;
}

static inline bytes tables_on(const struct tree *tree, unsigned int device)
{
        const struct tree_node *at = tree_from(tree, (struct tree_key){ 0, 0 });
        bytes sum = 0;

        for (; at; at = tree_next(at))
                if (OWNER_OF(at, struct hold, node)->tables_on >> device & 1)
                        sum += OWNER_OF(at, struct hold, node)->tables;
        return sum;
}

/* Whatever page tables there are have been counted, and what is counted is charged or about to be. */
static inline bool tables_are_sound(const struct ledger *ledger)
{
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++) {
                const struct tables *tables = &ledger->tables[i];

                if (tables_on(&ledger->mappings, i) + tables_on(&ledger->ranges, i) + tables_on(&ledger->managed, i) >
                            tables->live ||
                    tables->charge.size > tables->wanted || tables->live > tables->wanted)
                        return false;
        }
        return true;
}

static inline bool ledger_is_sound(const struct ledger *ledger)
{
        return sound_has_room(&ledger->clients, ledger->n_entries) &&
               sound_has_room(&ledger->objects, ledger->n_entries) && tree_is_sound(&ledger->mappings) &&
               tree_is_sound(&ledger->exports) && tree_is_sound(&ledger->retained) && tables_are_sound(ledger) &&
               tree_is_sound(&ledger->ranges) && tree_is_sound(&ledger->managed) &&
               tree_is_sound(&ledger->managed_owned) && ledger->managed.n_nodes == ledger->managed_owned.n_nodes &&
               nodes_are_sound(ledger) && memories_are_sound(ledger);
}

/* All managed ranges of a process go. */
static inline void ledger_owner_managed_gone(struct ledger *ledger, uint32_t owner)
{
        uint64_t space, base, length;

        for (size_t i = 0; ledger_managed_next(ledger, owner, &i, &space, &base, &length);)
                ledger_managed_gone(ledger, owner, base);
        ledger_managed_gone(ledger, owner, UINT64_MAX); /* which a visit leaves out */
}
