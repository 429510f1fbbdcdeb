/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from a 64-bit key to a pointer. Open addressing with backward-shift deletion: no
 * tombstones, so a map that only churns does not grow.
 *
 * The map owns its slots, never what they point to. Not thread-safe. Iterating visits every entry
 * once, in an order that differs from run to run; do not change the map while iterating. Keys may be
 * chosen by an enemy: where they fall depends on where the slots lie in memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
        uint64_t key;
        void *value; /* NULL: the slot is free */
};

struct map {
        struct map_slot *slots;
        size_t n_slots; /* a power of two, or 0 */
        size_t n_used;
};

void map_done(struct map *map); /* frees the slots; map may be used again */

/* Room for `more` further entries, so that as many map_put cannot fail. -ENOMEM. */
int map_reserve(struct map *map, size_t more);

/* value is not NULL. 0; -EEXIST (nothing changed); -ENOMEM (never after map_reserve). */
int map_put(struct map *map, uint64_t key, void *value);

void *map_get(const struct map *map, uint64_t key); /* NULL: not there */
void *map_take(struct map *map, uint64_t key);      /* removes; NULL: not there */

/* For each entry: i starts at 0; NULL at the end.
 *      for (size_t i = 0; (x = map_next(&map, &i)) != NULL;) */
void *map_next(const struct map *map, size_t *i);
