/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of items that embed it; its head is one link more. A link alone is a ring of one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
        struct list *next, *prev;
};

/* The thing of that type whose member the pointer points to. */
#define OWNER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
        list->next = list->prev = list;
}

static inline bool list_is_empty(const struct list *list)
{
        return list->next == list;
}

static inline void list_put(struct list *list, struct list *item)
{
        *item = (struct list){ list, list->prev };
        item->prev->next = item->next->prev = item;
}

/* Out of its ring, if it is in one: taking twice is fine. */
static inline void list_take(struct list *item)
{
        item->prev->next = item->next;
        item->next->prev = item->prev;
        list_init(item);
}

/* Out of its ring, if it is in one, and to the end of another. */
static inline void list_move(struct list *list, struct list *item)
{
        list_take(item);
        list_put(list, item);
}
