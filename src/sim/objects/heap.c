/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/objects/heap.h"

#include "rm/numbers.h"

#define GRANULE (64 * KIB) /* of 4 KiB and 64 KiB pages, docs/rm-abi.md 2.3 */

static bytes round_to_unit(bytes size, bytes unit)
{
        return (size + unit - 1) / unit * unit;
}

static bytes huge_page(uint32_t attr2)
{
        switch (RM_ATTR2_HUGE(attr2)) {
        case 2:
                return 512 * MIB;
        case 3:
                return 256 * GIB;
        default:
                return 2 * MIB;
        }
}

/* Of the default page size the driver takes the largest that the size fills. */
static bytes page_of(bytes size, uint32_t attr, uint32_t attr2)
{
        switch (RM_ATTR_PAGE_SIZE(attr)) {
        case 1:
                return 4 * KIB;
        case 2:
                return 64 * KIB;
        case 3:
                return huge_page(attr2);
        default:
                return size >= 2 * MIB ? 2 * MIB : size >= 64 * KIB ? 64 * KIB : 4 * KIB;
        }
}

int heap_round(bytes size, uint32_t attr, uint32_t attr2, bytes *ret_size, bytes *ret_taken)
{
        bytes page = page_of(size, attr, attr2);

        if (size > UINT64_MAX / 2)
                return HEAP_E_FULL;
        *ret_size = round_to_unit(size, page);
        *ret_taken = round_to_unit(size, page < GRANULE ? GRANULE : page);
        return HEAP_OK;
}

bytes heap_free(const struct heap *heap)
{
        return heap->size - heap->used;
}

static bytes evictable_bytes(const struct heap *heap)
{
        bytes sum = 0;

        for (const struct heap_evictable *evictables = heap->evictables; evictables; evictables = evictables->next)
                sum += evictables->held;
        return sum;
}

/* Takes from the oldest first: from the end of the list. */
static bytes evict(struct heap *heap, struct heap_evictable *evictables, bytes wanted)
{
        bytes got = 0, more;

        if (!evictables || !wanted)
                return 0;
        got = evict(heap, evictables->next, wanted);
        more = wanted - got < evictables->held ? wanted - got : evictables->held;
        evictables->held -= more;
        heap->used -= more;
        return got + more;
}

int heap_take(struct heap *heap, bytes size)
{
        if (size > heap_free(heap) && size - heap_free(heap) > evictable_bytes(heap))
                return HEAP_E_FULL;
        if (size > heap_free(heap))
                (void)evict(heap, heap->evictables, size - heap_free(heap));
        heap->used += size;
        return HEAP_OK;
}

void heap_give(struct heap *heap, bytes size)
{
        heap->used -= size;
}

void heap_take_evictable(struct heap *heap, struct heap_evictable *evictables, bytes wanted)
{
        bytes limit = heap_free(heap) + evictable_bytes(heap);

        evictables->held = wanted < limit ? wanted : limit;
        if (heap_take(heap, evictables->held) != HEAP_OK)
                evictables->held = 0;
        evictables->next = heap->evictables;
        heap->evictables = evictables;
}

void heap_give_evictable(struct heap *heap, struct heap_evictable *evictables)
{
        for (struct heap_evictable **at = &heap->evictables; *at; at = &(*at)->next) {
                if (*at != evictables)
                        continue;
                *at = evictables->next;
                heap_give(heap, evictables->held);
                evictables->held = 0;
                return;
        }
}
