/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

enum {
        SLOTS_MIN = 16,
};

/*
 * Both halves of a product spread the driver's small consecutive handles. The slots' own address
 * is the secret: keys are chosen by tenants, who must not be able to fill one run of slots.
 */
static size_t slot_of(const struct map *map, uint64_t key)
{
        uint64_t secret = (uintptr_t)map->slots * 0x9e3779b97f4a7c15u;
        unsigned __int128 product = (unsigned __int128)(key ^ secret) * 0xd6e8feb86659fd93u;

        return (size_t)((uint64_t)product ^ (uint64_t)(product >> 64)) & (map->n_slots - 1);
}

static struct map_slot *slot_find(const struct map *map, uint64_t key)
{
        size_t i;

        if (!map->n_slots)
                return NULL;
        for (i = slot_of(map, key); map->slots[i].value; i = (i + 1) & (map->n_slots - 1))
                if (map->slots[i].key == key)
                        break;
        return &map->slots[i];
}

static int resize(struct map *map, size_t n_slots)
{
        struct map next = { .slots = calloc(n_slots, sizeof(*map->slots)), .n_slots = n_slots };

        if (!next.slots)
                return -ENOMEM;
        for (size_t i = 0; i < map->n_slots; i++)
                if (map->slots[i].value)
                        *slot_find(&next, map->slots[i].key) = map->slots[i];
        next.n_used = map->n_used;
        free(map->slots);
        *map = next;
        return 0;
}

void map_done(struct map *map)
{
        free(map->slots);
        *map = (struct map){ 0 };
}

/* At most three quarters full, so that a search always meets a free slot. */
int map_reserve(struct map *map, size_t more)
{
        size_t n_slots = map->n_slots ? map->n_slots : SLOTS_MIN;

        if (more > SIZE_MAX / sizeof(*map->slots) / 4 - map->n_used)
                return -ENOMEM;
        while ((map->n_used + more) * 4 > n_slots * 3)
                n_slots *= 2;
        return n_slots == map->n_slots ? 0 : resize(map, n_slots);
}

int map_put(struct map *map, uint64_t key, void *value)
{
        struct map_slot *slot;
        int r;

        r = map_reserve(map, 1);
        if (r < 0)
                return r;
        slot = slot_find(map, key);
        if (slot->value)
                return -EEXIST;
        *slot = (struct map_slot){ key, value };
        map->n_used++;
        return 0;
}

void *map_get(const struct map *map, uint64_t key)
{
        const struct map_slot *slot = slot_find(map, key);

        return slot ? slot->value : NULL;
}

void *map_take(struct map *map, uint64_t key)
{
        struct map_slot *slot = slot_find(map, key);
        size_t hole, i, mask = map->n_slots - 1;
        void *value;

        if (!slot || !slot->value)
                return NULL;
        value = slot->value;
        hole = (size_t)(slot - map->slots);
        /* Move back every later entry of the run whose home does not lie between hole and it. */
        for (i = (hole + 1) & mask; map->slots[i].value; i = (i + 1) & mask) {
                size_t home = slot_of(map, map->slots[i].key);

                if (((i - home) & mask) >= ((i - hole) & mask)) {
                        map->slots[hole] = map->slots[i];
                        hole = i;
                }
        }
        map->slots[hole] = (struct map_slot){ 0 };
        map->n_used--;
        return value;
}

void *map_next(const struct map *map, size_t *i)
{
        while (*i < map->n_slots) {
                void *value = map->slots[(*i)++].value;

                if (value)
                        return value;
        }
        return NULL;
}
