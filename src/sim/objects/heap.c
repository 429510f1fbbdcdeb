#include "sim/objects/heap.h"

#include "rm/numbers.h"

#define GRANULE (64 * KIB) /* of 4 KiB and 64 KiB pages, docs/rm-abi.md 2.3 */

static bytes round_up(bytes size, bytes unit)
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
        *ret_size = round_up(size, page);
        *ret_taken = round_up(size, page < GRANULE ? GRANULE : page);
        return HEAP_OK;
}

bytes heap_free(const struct heap *heap)
{
        return heap->size - heap->used;
}

static bytes lodged(const struct heap *heap)
{
        bytes sum = 0;

        for (const struct heap_lodger *lodger = heap->lodgers; lodger; lodger = lodger->next)
                sum += lodger->held;
        return sum;
}

/* Takes from the oldest first, that is from the end of the list. */
static bytes evict(struct heap *heap, struct heap_lodger *lodger, bytes wanted)
{
        bytes got = 0, more;

        if (!lodger || !wanted)
                return 0;
        got = evict(heap, lodger->next, wanted);
        more = wanted - got < lodger->held ? wanted - got : lodger->held;
        lodger->held -= more;
        heap->used -= more;
        return got + more;
}

int heap_take(struct heap *heap, bytes size)
{
        if (size > heap_free(heap) && size - heap_free(heap) > lodged(heap))
                return HEAP_E_FULL;
        if (size > heap_free(heap))
                (void)evict(heap, heap->lodgers, size - heap_free(heap));
        heap->used += size;
        return HEAP_OK;
}

void heap_give(struct heap *heap, bytes size)
{
        heap->used -= size;
}

void heap_lodge(struct heap *heap, struct heap_lodger *lodger, bytes wanted)
{
        bytes limit = heap_free(heap) + lodged(heap);

        lodger->held = wanted < limit ? wanted : limit;
        if (heap_take(heap, lodger->held) != HEAP_OK)
                lodger->held = 0;
        lodger->next = heap->lodgers;
        heap->lodgers = lodger;
}

void heap_leave(struct heap *heap, struct heap_lodger *lodger)
{
        for (struct heap_lodger **at = &heap->lodgers; *at; at = &(*at)->next) {
                if (*at != lodger)
                        continue;
                *at = lodger->next;
                heap_give(heap, lodger->held);
                lodger->held = 0;
                return;
        }
}
