/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that leaves its device for a while and comes back under the same handles and at the same addresses: which of a
 * tenant's can, and what it takes.
 *
 * A *recipe* is what the driver was told when an object or a mapping was made, in the caller's own form. It is kept as
 * long as what was made by it. A memory moves if all that holds it is known and can be made again:
 *      V1  one object that was allocated, with its recipe and without children;
 *      V2  any number of mappings of VA spaces, each with its recipe;
 *      V3  any number of objects made over it (fabric memory), each with its recipe, without children and holders;
 *      V4  nobody has pinned it: the processor's mappings, and objects that name it;
 *      V5  no mapping of it has an address in common with another one: the driver has one of the two there, and in
 *          which order they would have to be made again is not known.
 * All others stay, counted by why. Managed ranges move as they are: UVM finds their pages. While a memory is away its
 * holders stay in the ledger and it is charged nothing; when it comes back it is charged as before, whatever the quota
 * is by then.
 *
 * Pure, as the ledger (ledger.h), and under the same lock.
 */
#pragma once

#include "lease/ledger.h"

enum {
        LEDGER_RECIPE_MAX = 192, /* bytes; of a longer one nothing is kept */
};

/* Of the object; of the latest mapping at (space, base) of the device `where`. Without memory for it none is kept. */
void ledger_recipe_set(struct ledger *ledger, uint32_t client, uint32_t handle, const void *recipe, size_t size);
void ledger_map_recipe_set(struct ledger *ledger, uint64_t space, uint64_t base, uint64_t where, const void *recipe,
                           size_t size);

/* The object's memory stays on its device from now on. What is no object, or has no memory: nothing. */
void ledger_pin(struct ledger *ledger, uint32_t client, uint32_t handle);

/* ---- which can move -------------------------------------------------------------------------------------- */

enum ledger_stay {
        LEDGER_STAY_UNKNOWN,  /* how its object was made, V1 */
        LEDGER_STAY_PINNED,   /* V4 */
        LEDGER_STAY_CHILDREN, /* an object hangs on its object */
        LEDGER_STAY_SHARED,   /* something else holds it, or a mapping of which no recipe is known */
        LEDGER_STAY_COVERED,  /* V5 */
        LEDGER_N_STAYS,
};

struct ledger_recipe {
        size_t size;
        uint8_t data[LEDGER_RECIPE_MAX];
};

struct ledger_move_object {
        struct ledger_object object;
        uint64_t stamp; /* no other object has it: ledger_move_is_there */
        struct ledger_recipe recipe;
};

struct ledger_move_map {
        uint64_t space, base, length, where;
        struct ledger_recipe recipe;
};

/* Managed: of what was put several times there, the longest. */
struct ledger_range {
        uint64_t space, base, length;
};

/* A memory, and where in the plan's arrays its mappings and the objects over it stand. */
struct ledger_move {
        struct ledger_move_object object;
        bytes size; /* as charged */
        size_t first_map, n_maps, first_over, n_overs;
};

/* Copies: the ledger may change. */
struct ledger_plan {
        struct ledger_move *moves;
        struct ledger_move_map *maps;
        struct ledger_move_object *overs;
        struct ledger_range *ranges; /* by space and base */
        size_t n, n_maps, n_overs, n_ranges;
        bytes size;    /* of all moves */
        bytes managed; /* as charged, on all devices together */
        struct {
                size_t n;
                bytes size;
        } stays[LEDGER_N_STAYS];
};

/* Of memories that were allocated by request and are on their device, which is what is not charged to `host`, and of
 * all managed ranges; what the driver took by itself, and what is borrowed, is in no figure. 0; -ENOMEM. */
int ledger_plan(struct ledger *ledger, const struct quota *host, struct ledger_plan *ret);
void ledger_plan_done(struct ledger_plan *plan);

const char *ledger_stay_name(enum ledger_stay why);

/* ---- away and back --------------------------------------------------------------------------------------- */

/* The object that was planned is still there; and the mapping, of that object's memory. */
bool ledger_move_is_there(const struct ledger *ledger, const struct ledger_move_object *object);
bool ledger_map_is_there(const struct ledger *ledger, const struct ledger_move_map *map,
                         const struct ledger_move_object *object);

/* The object's memory leaves its device, or is back. Twice is once. */
void ledger_away(struct ledger *ledger, uint32_t client, uint32_t handle);
void ledger_back(struct ledger *ledger, uint32_t client, uint32_t handle);
bool ledger_is_away(const struct ledger *ledger, uint32_t client, uint32_t handle);

/* The same of all managed ranges there are. One that is put while others are away is charged as ever. */
void ledger_managed_away(struct ledger *ledger);
void ledger_managed_back(struct ledger *ledger);
