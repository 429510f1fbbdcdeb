/* What the ledger says of itself: sums, and whether its invariants hold. Changes nothing. */
#include "lease/inside.h"

struct ledger_totals ledger_totals(const struct ledger *ledger)
{
        return (struct ledger_totals){
                .n_clients = ledger->clients.n_used,
                .n_objects = ledger->objects.n_used,
                .n_memories = ledger->n_memories,
                .n_mappings = ledger->mappings.n_nodes,
                .n_exports = ledger->exports.n_nodes,
                .n_managed = ledger->managed.n_nodes,
        };
}

/* The one after `last`; the first, if that is NULL; NULL at the end. */
static struct memory *memory_next(const struct ledger *ledger, const struct memory *last)
{
        struct list *next = last ? last->all.next : ledger->memories.next;

        return next == &ledger->memories ? NULL : OWNER_OF(next, struct memory, all);
}

bytes ledger_held(const struct ledger *ledger, const struct quota *quota)
{
        const struct memory *memory = NULL;
        bytes sum = 0;

        while ((memory = memory_next(ledger, memory)) != NULL)
                if (memory->charge.quota == quota)
                        sum += memory->charge.size; /* cannot overflow: quota->used counts it */
        return sum;
}

bytes ledger_held_by(const struct ledger *ledger, const struct quota *quota, uint32_t owner)
{
        const struct memory *memory = NULL;
        bytes sum = 0;

        while ((memory = memory_next(ledger, memory)) != NULL)
                if (memory->charge.quota == quota && memory->owner == owner)
                        sum += memory->charge.size;
        return sum;
}

/* L4: every outstanding entry finds a slot. */
static bool has_room(const struct map *map, size_t n_entries)
{
        return map->n_slots * 3 >= (map->n_used + n_entries) * 4;
}

/* The next node of a client's tree, parents first; NULL at the end. */
static const struct node *walk_next(const struct node *node)
{
        if (!list_is_empty(&node->children))
                return OWNER_OF(node->children.next, struct node, siblings);
        while (node->parent && node->siblings.next == &node->parent->children)
                node = node->parent;
        return node->parent ? OWNER_OF(node->siblings.next, struct node, siblings) : NULL;
}

static bool node_is_sound(const struct ledger *ledger, const struct node *node)
{
        const struct ledger_object *name = &node->name;

        if (node->is_marked || node->next_marked)
                return false;
        if (!node->parent)
                return map_get(&ledger->clients, name->handle) == node;
        if (ledger_node(ledger, name->client, name->handle) != node)
                return false;
        return node->parent->name.client == name->client && node->parent->name.handle == name->parent;
}

/* L2: every object hangs, through its parents, on a client that is there. */
static bool nodes_are_sound(const struct ledger *ledger)
{
        const struct node *client, *node;
        size_t n = 0, n_expected = ledger->clients.n_used + ledger->objects.n_used;

        for (size_t i = 0; (client = map_next(&ledger->clients, &i)) != NULL;)
                for (node = client; node; node = walk_next(node))
                        if (++n > n_expected || !node_is_sound(ledger, node))
                                return false;
        return n == n_expected;
}

/* Both ends of a dependency are objects that are there, of one client. */
static bool dependencies_are_sound(const struct ledger *ledger)
{
        const struct node *node;
        size_t n_needs = 0, n_dependents = 0;

        for (size_t i = 0; (node = map_next(&ledger->objects, &i)) != NULL;) {
                const struct list *at;

                for (at = node->needs.next; at != &node->needs; at = at->next, n_needs++)
                        if (OWNER_OF(at, struct dependency, needs)->node != node)
                                return false;
                for (at = node->dependents.next; at != &node->dependents; at = at->next, n_dependents++)
                        if (OWNER_OF(at, struct dependency, dependents)->node->name.client != node->name.client)
                                return false;
        }
        return n_needs == n_dependents;
}

static bool classes_are_sound(const struct ledger *ledger)
{
        const struct node *node;
        size_t n = 0;
        void *count;

        for (size_t i = 0; (count = map_next(&ledger->classes, &i)) != NULL;)
                n += (size_t)count;
        for (size_t i = 0; (node = map_next(&ledger->objects, &i)) != NULL;)
                if (!ledger_count(ledger, node->name.class_number))
                        return false;
        return n == ledger->objects.n_used;
}

static void count_holds(const struct tree *tree)
{
        const struct tree_node *at = tree_from(tree, (struct tree_key){ 0, 0 });

        for (; at; at = tree_next(at)) {
                struct memory *memory = OWNER_OF(at, struct hold, place)->memory;

                if (memory)
                        memory->n_counted++;
        }
}

static void count_holders(const struct ledger *ledger)
{
        struct memory *memory = NULL;
        const struct node *node;

        while ((memory = memory_next(ledger, memory)) != NULL)
                memory->n_counted = 0;
        for (size_t i = 0; (node = map_next(&ledger->objects, &i)) != NULL;)
                if (node->memory)
                        node->memory->n_counted++;
        count_holds(&ledger->mappings);
        count_holds(&ledger->exports);
        count_holds(&ledger->managed);
}

/* L1, as far as one ledger can tell; L3. */
static bool memories_are_sound(const struct ledger *ledger)
{
        const struct memory *memory = NULL;
        size_t n = 0;

        count_holders(ledger);
        while ((memory = memory_next(ledger, memory)) != NULL) {
                if (!memory->n_holders || memory->n_holders != memory->n_counted)
                        return false;
                if (!memory->charge.quota || memory->charge.size > memory->charge.quota->used)
                        return false;
                n++;
        }
        return n == ledger->n_memories;
}

bool ledger_is_sound(const struct ledger *ledger)
{
        return has_room(&ledger->clients, ledger->n_entries) && has_room(&ledger->objects, ledger->n_entries) &&
               has_room(&ledger->classes, ledger->n_entries) && tree_is_sound(&ledger->mappings) &&
               tree_is_sound(&ledger->exports) && tree_is_sound(&ledger->ranges) && tree_is_sound(&ledger->managed) &&
               tree_is_sound(&ledger->managed_owned) && ledger->managed.n_nodes == ledger->managed_owned.n_nodes &&
               nodes_are_sound(ledger) && dependencies_are_sound(ledger) && classes_are_sound(ledger) &&
               memories_are_sound(ledger);
}
