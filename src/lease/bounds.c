/* SPDX-License-Identifier: Apache-2.0 */
/* How many objects of each kind there are, and may be. What is being made counts with every kind: an entry is taken
 * before the driver is called, so threads at once do not come past a bound. */
#include "lease/inside.h"

#include "base/cleanup.h"

#include <assert.h>

enum {
        CLIENTS = 0x41,
        HOLDS_MAX = 2 * 1048576, /* mappings, ranges, exports, managed ranges, what a space retains: together */
        /* Ranges, and one more for each MiB of video memory. Each is memory of the kernel's. libcuda makes one for
         * each allocation that is no part of another (of 2 MiB), and for each host memory that a device sees. */
        RANGES_MIN = 65536,
};

static const struct {
        uint32_t class_number, most;
        const char *what;
} bounds[] = {
#define BOUND(class_number, most, what) { class_number, most, what },
#include "lease/bounds.def"
#undef BOUND
};

static_assert(ARRAY_SIZE(bounds) == LEDGER_KINDS, "a count for each row");

static size_t kind_of(uint32_t class_number)
{
        size_t i = 0;

        while (i < ARRAY_SIZE(bounds) - 1 && bounds[i].class_number != class_number)
                i++;
        return i;
}

void bounds_count(struct ledger *ledger, uint32_t class_number, bool is_new)
{
        uint32_t *n = &ledger->n_of[kind_of(class_number)];

        *n = is_new ? *n + 1 : *n - 1;
}

const char *ledger_bound(const struct ledger *ledger, uint32_t class_number, uint32_t *ret_most)
{
        size_t kind = kind_of(class_number);
        size_t n = class_number == CLIENTS ? ledger->clients.n_used : ledger->n_of[kind];

        *ret_most = bounds[kind].most;
        return n + ledger->n_entries >= bounds[kind].most ? bounds[kind].what : NULL;
}

bool ledger_is_full(const struct ledger *ledger)
{
        return ledger->mappings.n_nodes + ledger->ranges.n_nodes + ledger->exports.n_nodes + ledger->managed.n_nodes +
                       ledger->retained.n_nodes + ledger->n_entries >=
               HOLDS_MAX;
}

bool ledger_has_room_for_range(const struct ledger *ledger, bytes memory, uint32_t *ret_most)
{
        bytes most = RANGES_MIN + memory / MIB;

        *ret_most = most < HOLDS_MAX ? (uint32_t)most : HOLDS_MAX;
        return ledger->ranges.n_nodes + ledger->n_entries < *ret_most;
}
