/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of a space for which the ledger has no range: however many ranges there are, a call looks at a bounded
 * number of them. */
#include "lease/inside.h"

/* The first address from `from` on that no range of the tree has. Ranges of one kind do not overlap in a space, but for
 * managed ones that were put again. *left: how many may be looked at; at 0 it is none that is free. */
static uint64_t first_free(const struct tree *tree, uint64_t space, uint64_t from, unsigned int *left)
{
        const struct tree_node *over;

        while (*left && from < UINT64_MAX && (over = tree_over(tree, (struct tree_key){ space, 0 }, from, from))) {
                from = over->last < UINT64_MAX ? over->last + 1 : UINT64_MAX;
                --*left;
        }
        return from;
}

static uint64_t first_base(const struct tree *tree, uint64_t space, uint64_t from)
{
        const struct hold *hold = hold_from(tree, space, from);

        return hold ? hold->node.key.low : UINT64_MAX;
}

bool ledger_gap_next(const struct ledger *ledger, uint64_t space, uint64_t *base, uint64_t end, uint64_t *ret_length)
{
        unsigned int left = LEDGER_GAP_WALK;
        uint64_t from, next;

        do {
                from = *base;
                *base = first_free(&ledger->ranges, space, from, &left);
                *base = first_free(&ledger->managed, space, *base, &left);
        } while (left && *base != from && *base < end);
        if (*base >= end)
                return false;
        *ret_length = 0;
        if (!left)
                return true;
        next = first_base(&ledger->ranges, space, *base);
        if (next > first_base(&ledger->managed, space, *base))
                next = first_base(&ledger->managed, space, *base);
        *ret_length = (next < end ? next : end) - *base;
        return true;
}
