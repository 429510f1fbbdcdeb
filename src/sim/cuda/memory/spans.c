/* SPDX-License-Identifier: Apache-2.0 */
/* Stretches of addresses in order: a sorted array, found by bisection. See memory.h. */
#include "sim/cuda/memory/memory.h"

#include <errno.h>
#include <stdlib.h>

/* The index of the first span that ends behind the address. */
static size_t spans_first(const struct spans *spans, uint64_t address)
{
        size_t low = 0, high = spans->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (spans->span[middle]->base + spans->span[middle]->size <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct span *spans_find(const struct spans *spans, uint64_t address)
{
        size_t i = spans_first(spans, address);

        return i < spans->n && spans->span[i]->base <= address ? spans->span[i] : NULL;
}

int spans_put(struct spans *spans, struct span *span)
{
        size_t i = spans_first(spans, span->base);

        if (!span->size || span->base + span->size < span->base)
                return -EINVAL;
        if (i < spans->n && spans->span[i]->base < span->base + span->size)
                return -EEXIST;
        if (spans->n == spans->room) {
                size_t room = spans->room * 2 + 64;
                struct span **grown = reallocarray(spans->span, room, sizeof(struct span *));

                if (!grown)
                        return -ENOMEM;
                spans->span = grown;
                spans->room = room;
        }
        memmove(spans->span + i + 1, spans->span + i, (spans->n - i) * sizeof(struct span *));
        spans->span[i] = span;
        spans->n++;
        return 0;
}

void spans_take(struct spans *spans, const struct span *span)
{
        size_t i = spans_first(spans, span->base);

        if (i >= spans->n || spans->span[i] != span)
                return;
        spans->n--;
        memmove(spans->span + i, spans->span + i + 1, (spans->n - i) * sizeof(struct span *));
}
