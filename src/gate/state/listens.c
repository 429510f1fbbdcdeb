/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/listens.h"

#include <errno.h>

static uint64_t key_of(uint32_t client, uint32_t number)
{
        return (uint64_t)client << 32 | number;
}

void listens_done(struct listens *listens)
{
        map_done(&listens->numbers);
}

int listens_put(struct listens *listens, uint32_t client, uint32_t number)
{
        static char here;
        uint64_t key = key_of(client, number);

        if (map_get(&listens->numbers, key))
                return -EEXIST;
        return listens->numbers.n_used >= LISTENS_MAX ? -ENOSPC : map_put(&listens->numbers, key, &here);
}

void listens_take(struct listens *listens, uint32_t client, uint32_t number)
{
        (void)map_take(&listens->numbers, key_of(client, number));
}

size_t listens_some(struct listens *listens, bool (*is_gone)(void *context, uint32_t client), void *context,
                    struct listen *ret, size_t n_room)
{
        const struct map *map = &listens->numbers;
        size_t n = 0;

        for (size_t i = 0; i < map->n_slots && n < n_room; i++) {
                const struct map_slot *slot = &map->slots[listens->from++ % map->n_slots];
                uint32_t client = (uint32_t)(slot->key >> 32);

                if (slot->value && is_gone(context, client))
                        ret[n++] = (struct listen){ client, (uint32_t)slot->key };
        }
        return n;
}
