/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/policy/caught.h"

#include "base/cleanup.h"
#include "rm/call.h"
#include "rm/numbers.h"

enum {
        NR_AND_SIZE = 0x3fff00ff, /* F1: what of a request the driver looks at */
        DEVICES_LISTED_MAX = 32,
        DEVICE_INFO_SIZE = 72,
        UVM_FREE_WITHOUT_LENGTH = 16,
};

struct list {
        struct caught *at;
        size_t n;
};

static void caught_put(struct list *list, uint32_t mask, uint32_t value)
{
        for (size_t i = 0; i < list->n; i++)
                if (list->at[i].mask == mask && list->at[i].value == value)
                        return;
        if (list->n < CAUGHT_MAX)
                list->at[list->n++] = (struct caught){ mask, value };
}

/* F1. A row without a size takes any number of elements. */
static void put_row(struct list *list, uint32_t nr, uint32_t size)
{
        if (size == RM_ABSENT)
                return;
        if (size)
                caught_put(list, NR_AND_SIZE, size << 16 | nr);
        for (uint32_t n = 1; n <= DEVICES_LISTED_MAX && !size; n++)
                caught_put(list, NR_AND_SIZE, (n * DEVICE_INFO_SIZE) << 16 | nr);
}

static void put_requests(struct list *list, const struct rm_layout *layout)
{
#define REQUEST(kind, node, nr, size, status, fd, client, meaning)                                                     \
        if (RM_NODE_##node == RM_NODE_CTL)                                                                             \
                put_row(list, nr, size);
#include "rm/requests.def"
#undef REQUEST
}

/* F1, for what no row names: a request of type 'F', the driver's own, with another number or size, is worth an answer
 * and a line in the log. One whose type is another's is the other's. */
static void put_unknown(struct list *list)
{
        for (uint32_t high = 0x20; high <= 0xe0; high += 0x20)
                caught_put(list, 0xffe0u, (uint32_t)'F' << 8 | high);
}

/* F2: 4 to 127, known or not, and the two large numbers. 1 to 3 are other people's (FIBMAP, FIGETBSZ) and no longer
 * UVM's in any release that we know. UVM_CREATE_EXTERNAL takes nothing and need not be seen where UVM_FREE tells a
 * range's length (up to 580): one notification less for every allocation. */
static void put_uvm(struct list *list, const struct rm_layout *layout)
{
        static const struct {
                uint32_t first, n; /* n is a power of two, first a multiple of it */
        } spans[] = { { 4, 4 },  { 8, 8 },  { 16, 16 }, { 32, 32 }, { 64, 8 }, { 72, 1 },
                      { 73, 1 }, { 74, 2 }, { 76, 4 },  { 80, 16 }, { 96, 32 } };

        caught_put(list, 0xfffffffcu, UVM_INITIALIZE & ~3u);
        for (size_t i = 0; i < ARRAY_SIZE(spans); i++)
                if (spans[i].first != UVM_CREATE_EXTERNAL || layout->uvm_free_size == UVM_FREE_WITHOUT_LENGTH)
                        caught_put(list, ~(spans[i].n - 1), spans[i].first);
}

size_t caught_requests(const struct rm_layout *layout, struct caught ret[static CAUGHT_MAX])
{
        struct list list = { ret, 0 };

        put_requests(&list, layout);
        put_unknown(&list);
        put_uvm(&list, layout);
        return list.n;
}
