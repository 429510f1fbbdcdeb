/* SPDX-License-Identifier: Apache-2.0 */
/* Which memories can move, and their charges meanwhile: moves.h. */
#include "lease/moves.h"

#include "base/cleanup.h"
#include "lease/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- recipes -------------------------------------------------------------------------------------------- */

static void recipe_put(struct recipe **at, const void *data, size_t size)
{
        struct recipe *recipe = size <= LEDGER_RECIPE_MAX ? malloc(sizeof(*recipe) + size) : NULL;

        free(*at);
        *at = recipe;
        if (!recipe)
                return;
        recipe->size = size;
        memcpy(recipe->data, data, size);
}

void ledger_recipe_set(struct ledger *ledger, uint32_t client, uint32_t handle, const void *recipe, size_t size)
{
        struct node *node = ledger_node(ledger, client, handle);

        if (node)
                recipe_put(&node->recipe, recipe, size);
}

static struct hold *map_next_at(struct hold *hold)
{
        struct tree_node *next = tree_next(&hold->node);
        struct hold *beside = next ? OWNER_OF(next, struct hold, node) : NULL;

        return beside && beside->node.key.high == hold->node.key.high && beside->node.key.low == hold->node.key.low ?
                       beside :
                       NULL;
}

/* Mappings at one address are of different devices: what was there of the same is gone. */
static struct hold *map_at(const struct ledger *ledger, uint64_t space, uint64_t base, uint64_t where)
{
        struct hold *hold = hold_at(&ledger->mappings, space, base);

        while (hold && hold->where != where)
                hold = map_next_at(hold);
        return hold;
}

void ledger_map_recipe_set(struct ledger *ledger, uint64_t space, uint64_t base, uint64_t where, const void *recipe,
                           size_t size)
{
        struct hold *hold = map_at(ledger, space, base, where);

        if (hold)
                recipe_put(&hold->recipe, recipe, size);
}

void ledger_pin(struct ledger *ledger, uint32_t client, uint32_t handle)
{
        struct node *node = ledger_node(ledger, client, handle);

        for (struct memory *memory = node ? node->memory : NULL; memory; memory = memory->below)
                memory->is_pinned = true;
}

/* ---- the plan -------------------------------------------------------------------------------------------- */

static const char *const stay_names[] = {
        [LEDGER_STAY_UNKNOWN] = "made in another way",
        [LEDGER_STAY_PINNED] = "mapped for the processor or named by an object",
        [LEDGER_STAY_CHILDREN] = "with objects of its own",
        [LEDGER_STAY_SHARED] = "shared",
        [LEDGER_STAY_COVERED] = "mapped over other memory, or below it",
};

const char *ledger_stay_name(enum ledger_stay why)
{
        return why < LEDGER_N_STAYS ? stay_names[why] : "?";
}

/* On its device, and by request. */
static bool is_planned(const struct memory *memory, const struct quota *host)
{
        return memory->charge.size && memory->charge.quota != host && !memory->live && !memory->loan && !memory->below;
}

static bool is_plain(const struct node *node)
{
        return node->parent && node->recipe && list_is_empty(&node->children);
}

/* V3: an object over a memory that can be moved, and nobody else's. */
static bool is_over(const struct node *node)
{
        return node->memory && node->memory->below && is_plain(node) && node->memory->n_holders == 1 &&
               !node->memory->below->below;
}

/* The mappings of a space that were met, by where they are: of each the one that reaches farthest. */
struct reaches {
        uint64_t space;
        const struct hold *items[LEASE_DEVICES_MAX + 1]; /* and of several devices */
        size_t n;
};

static uint64_t end_of(const struct hold *hold)
{
        return hold->node.key.low + hold->length;
}

static void cover(const struct hold *hold)
{
        if (hold->memory)
                hold->memory->is_covered = true;
}

/* V5. `where` 0: of several devices, so of each. Mappings come in the order of their addresses, and a tenant chooses
 * how many: so each is compared with those that reach farthest, and no more. All that overlap are found: of two that
 * both reach a third, the second has met one that reached it, and of those the first was one, or overlapped one. */
static void cover_note(struct reaches *reaches, const struct hold *hold)
{
        size_t own = reaches->n;

        if (reaches->space != hold->node.key.high)
                *reaches = (struct reaches){ .space = hold->node.key.high };
        own = reaches->n;
        for (size_t i = 0; i < reaches->n; i++) {
                const struct hold *other = reaches->items[i];

                if (other->where == hold->where)
                        own = i;
                if ((other->where && hold->where && other->where != hold->where) || end_of(other) <= hold->node.key.low)
                        continue;
                cover(other);
                cover(hold);
        }
        if (own == ARRAY_SIZE(reaches->items)) {
                cover(hold); /* not a device of the lease */
                return;
        }
        if (own == reaches->n)
                reaches->items[reaches->n++] = hold;
        else if (end_of(hold) > end_of(reaches->items[own]))
                reaches->items[own] = hold;
}

/* Counts the holders that are known and can be made again. */
static void holders_count(struct ledger *ledger)
{
        struct reaches reaches = { 0 };
        const struct node *node;

        for (struct list *at = ledger->memories.next; at != &ledger->memories; at = at->next) {
                OWNER_OF(at, struct memory, all)->n_found = 0;
                OWNER_OF(at, struct memory, all)->is_covered = false;
        }
        for (size_t i = 0; (node = map_next(&ledger->objects, &i)) != NULL;) {
                if (is_over(node))
                        node->memory->below->n_found++;
                else if (node->memory && is_plain(node))
                        node->memory->n_found++;
        }
        for (struct tree_node *at = tree_from(&ledger->mappings, (struct tree_key){ 0, 0 }); at; at = tree_next(at)) {
                const struct hold *hold = OWNER_OF(at, struct hold, node);

                if (hold->memory && hold->recipe)
                        hold->memory->n_found++;
                cover_note(&reaches, hold);
        }
}

/* Why the memory of an object stays; LEDGER_N_STAYS: it moves. */
static enum ledger_stay why_stays(const struct node *node)
{
        if (node->memory->is_pinned)
                return LEDGER_STAY_PINNED;
        if (!list_is_empty(&node->children))
                return LEDGER_STAY_CHILDREN;
        if (!node->recipe)
                return LEDGER_STAY_UNKNOWN;
        if (node->memory->n_found != node->memory->n_holders)
                return LEDGER_STAY_SHARED;
        return node->memory->is_covered ? LEDGER_STAY_COVERED : LEDGER_N_STAYS;
}

static struct ledger_move_object object_of(const struct node *node)
{
        struct ledger_move_object object = { .object = node->name,
                                             .stamp = node->stamp,
                                             .recipe.size = node->recipe->size };

        memcpy(object.recipe.data, node->recipe->data, node->recipe->size);
        return object;
}

static void move_list(struct ledger_plan *plan, const struct node *node)
{
        enum ledger_stay why = why_stays(node);
        bytes size = node->memory->charge.size;

        if (why == LEDGER_N_STAYS) {
                plan->moves[plan->n++] = (struct ledger_move){ .object = object_of(node), .size = size };
                plan->size += size;
        } else {
                plan->stays[why].n++;
                plan->stays[why].size += size;
        }
        node->memory->n_found = SIZE_MAX; /* once */
}

/* Those that move, in n_found their number from 1 on; 0: it stays. Objects with a recipe come first: of what is shared
 * the one that was allocated says why. */
static void moves_list(struct ledger *ledger, const struct quota *host, struct ledger_plan *plan)
{
        const struct node *node;

        for (int pass = 0; pass < 2; pass++)
                for (size_t i = 0; (node = map_next(&ledger->objects, &i)) != NULL;)
                        if (node->memory && is_planned(node->memory, host) && node->memory->n_found != SIZE_MAX &&
                            (pass || node->recipe))
                                move_list(plan, node);
        for (struct list *at = ledger->memories.next; at != &ledger->memories; at = at->next)
                OWNER_OF(at, struct memory, all)->n_found = 0;
        for (size_t i = 0; i < plan->n; i++)
                ledger_node(ledger, plan->moves[i].object.object.client, plan->moves[i].object.object.handle)
                        ->memory->n_found = i + 1;
}

static size_t count_maps(const struct ledger *ledger, struct ledger_plan *plan)
{
        size_t n = 0;

        for (struct tree_node *at = tree_from(&ledger->mappings, (struct tree_key){ 0, 0 }); at; at = tree_next(at)) {
                const struct memory *memory = OWNER_OF(at, struct hold, node)->memory;

                if (memory && memory->n_found) {
                        plan->moves[memory->n_found - 1].n_maps++;
                        n++;
                }
        }
        return n;
}

static size_t count_overs(const struct ledger *ledger, struct ledger_plan *plan)
{
        const struct node *node;
        size_t n = 0;

        for (size_t i = 0; (node = map_next(&ledger->objects, &i)) != NULL;)
                if (is_over(node) && node->memory->below->n_found) {
                        plan->moves[node->memory->below->n_found - 1].n_overs++;
                        n++;
                }
        return n;
}

/* Each move's own stand together: the first of each is known from their numbers, and counted again. */
static void firsts_set(struct ledger_plan *plan)
{
        size_t maps = 0, overs = 0;

        for (size_t i = 0; i < plan->n; i++) {
                struct ledger_move *move = &plan->moves[i];

                move->first_map = maps;
                move->first_over = overs;
                maps += move->n_maps;
                overs += move->n_overs;
                move->n_maps = move->n_overs = 0;
        }
}

static void maps_fill(const struct ledger *ledger, struct ledger_plan *plan)
{
        for (struct tree_node *at = tree_from(&ledger->mappings, (struct tree_key){ 0, 0 }); at; at = tree_next(at)) {
                const struct hold *hold = OWNER_OF(at, struct hold, node);
                struct ledger_move_map *map;
                struct ledger_move *move;

                if (!hold->memory || !hold->memory->n_found)
                        continue;
                move = &plan->moves[hold->memory->n_found - 1];
                map = &plan->maps[move->first_map + move->n_maps++];
                *map = (struct ledger_move_map){ .space = at->key.high,
                                                 .base = at->key.low,
                                                 .length = hold->length,
                                                 .where = hold->where,
                                                 .recipe.size = hold->recipe->size };
                memcpy(map->recipe.data, hold->recipe->data, hold->recipe->size);
        }
}

static void overs_fill(const struct ledger *ledger, struct ledger_plan *plan)
{
        const struct node *node;

        for (size_t i = 0; (node = map_next(&ledger->objects, &i)) != NULL;) {
                struct ledger_move *move;

                if (!is_over(node) || !node->memory->below->n_found)
                        continue;
                move = &plan->moves[node->memory->below->n_found - 1];
                plan->overs[move->first_over + move->n_overs++] = object_of(node);
        }
}

/* NULL: the first. */
static const struct hold *managed_next(const struct ledger *ledger, const struct hold *hold)
{
        struct tree_node *next = hold ? tree_next(&hold->node) : tree_from(&ledger->managed, (struct tree_key){ 0, 0 });

        return next ? OWNER_OF(next, struct hold, node) : NULL;
}

static int ranges_list(const struct ledger *ledger, struct ledger_plan *plan)
{
        struct ledger_range *last = NULL;
        const struct hold *hold = NULL;

        plan->ranges = calloc(ledger->managed.n_nodes + 1, sizeof(*plan->ranges));
        if (!plan->ranges)
                return -ENOMEM;
        while ((hold = managed_next(ledger, hold)) != NULL) {
                const struct tree_key *at = &hold->node.key;

                if (!last || last->space != at->high || last->base != at->low) {
                        last = &plan->ranges[plan->n_ranges++];
                        *last = (struct ledger_range){ at->high, at->low, 0 };
                }
                if (hold->length > last->length)
                        last->length = hold->length;
                plan->managed += hold->memory ? hold->memory->charge.size : 0;
        }
        return 0;
}

int ledger_plan(struct ledger *ledger, const struct quota *host, struct ledger_plan *ret)
{
        _cleanup_(ledger_plan_done) struct ledger_plan plan = { 0 };

        plan.moves = calloc(ledger->n_memories + 1, sizeof(*plan.moves));
        if (!plan.moves)
                return -ENOMEM;
        holders_count(ledger);
        moves_list(ledger, host, &plan);
        plan.n_maps = count_maps(ledger, &plan);
        plan.n_overs = count_overs(ledger, &plan);
        plan.maps = calloc(plan.n_maps + 1, sizeof(*plan.maps));
        plan.overs = calloc(plan.n_overs + 1, sizeof(*plan.overs));
        if (!plan.maps || !plan.overs || ranges_list(ledger, &plan) < 0)
                return -ENOMEM;
        firsts_set(&plan);
        maps_fill(ledger, &plan);
        overs_fill(ledger, &plan);
        *ret = TAKE(plan);
        return 0;
}

void ledger_plan_done(struct ledger_plan *plan)
{
        free(plan->moves);
        free(plan->maps);
        free(plan->overs);
        free(plan->ranges);
        *plan = (struct ledger_plan){ 0 };
}

/* ---- away and back --------------------------------------------------------------------------------------- */

bool ledger_move_is_there(const struct ledger *ledger, const struct ledger_move_object *object)
{
        const struct node *node = ledger_node(ledger, object->object.client, object->object.handle);

        return node && node->stamp == object->stamp;
}

bool ledger_map_is_there(const struct ledger *ledger, const struct ledger_move_map *map,
                         const struct ledger_move_object *object)
{
        const struct node *node = ledger_node(ledger, object->object.client, object->object.handle);
        const struct hold *hold = map_at(ledger, map->space, map->base, map->where);

        return node && hold && hold->memory == node->memory && hold->length == map->length;
}

static struct memory *memory_of(const struct ledger *ledger, uint32_t client, uint32_t handle)
{
        const struct node *node = ledger_node(ledger, client, handle);

        return node ? node->memory : NULL;
}

static void memory_away(struct memory *memory)
{
        if (!memory || memory->away || !memory->charge.quota)
                return;
        memory->away = memory->charge.size;
        memory->away_of = memory->charge.quota;
        charge_drop(&memory->charge);
}

static void memory_back(struct memory *memory)
{
        if (!memory || !memory->away)
                return;
        memory->charge = quota_restore(memory->away_of, memory->away);
        memory->away = 0;
}

void ledger_away(struct ledger *ledger, uint32_t client, uint32_t handle)
{
        memory_away(memory_of(ledger, client, handle));
}

void ledger_back(struct ledger *ledger, uint32_t client, uint32_t handle)
{
        memory_back(memory_of(ledger, client, handle));
}

void ledger_managed_away(struct ledger *ledger)
{
        const struct hold *hold = NULL;

        while ((hold = managed_next(ledger, hold)) != NULL)
                memory_away(hold->memory);
}

void ledger_managed_back(struct ledger *ledger)
{
        const struct hold *hold = NULL;

        while ((hold = managed_next(ledger, hold)) != NULL)
                memory_back(hold->memory);
}

bool ledger_is_away(const struct ledger *ledger, uint32_t client, uint32_t handle)
{
        const struct memory *memory = memory_of(ledger, client, handle);

        return memory && memory->away;
}
