/* SPDX-License-Identifier: Apache-2.0 */
#include "near/near.h"

struct candidate {
        uint32_t set;
        unsigned int apart, nodes;
        int64_t cost;
};

static bool has(uint32_t set, size_t device)
{
        return set >> device & 1;
}

unsigned int near_apart(const struct near_device *devices, size_t n, uint32_t set)
{
        unsigned int apart = 0;

        for (size_t i = 0; i < n; i++)
                if (has(set, i)) /* pairs are counted at their higher number */
                        apart += (unsigned int)__builtin_popcount(set & ~devices[i].links & ((UINT32_C(1) << i) - 1));
        return apart;
}

static unsigned int nodes_of(const struct near_view *view, uint32_t set)
{
        unsigned int nodes = 0;

        for (size_t i = 0; i < view->n; i++) {
                bool is_first = has(set, i);

                for (size_t k = 0; k < i; k++)
                        is_first &= !has(set, k) || view->devices[k].numa != view->devices[i].numa;
                nodes += is_first;
        }
        return nodes;
}

static bool shares_node(const struct near_view *view, uint32_t set, size_t device)
{
        for (size_t i = 0; i < view->n; i++)
                if (has(set, i) && view->devices[i].numa == view->devices[device].numa)
                        return true;
        return false;
}

/* Of two devices that may join the set, the one that is nearer to it. */
static bool is_nearer(const struct near_view *view, uint32_t set, size_t a, size_t b)
{
        int links_a = __builtin_popcount(set & view->devices[a].links),
            links_b = __builtin_popcount(set & view->devices[b].links);
        bool node_a = shares_node(view, set, a), node_b = shares_node(view, set, b);

        if (links_a != links_b)
                return links_a > links_b;
        if (node_a != node_b)
                return node_a;
        return view->devices[a].cost < view->devices[b].cost;
}

/* NEAR_DEVICES: none is left. */
static size_t nearest(const struct near_view *view, uint32_t set)
{
        size_t best = NEAR_DEVICES;

        for (size_t i = 0; i < view->n; i++)
                if (has(view->may & ~set, i) && (best == NEAR_DEVICES || is_nearer(view, set, i, best)))
                        best = i;
        return best;
}

/* The set that begins at a device; 0: there are too few. */
static uint32_t grow(const struct near_view *view, size_t first)
{
        uint32_t set = UINT32_C(1) << first;

        for (unsigned int n = 1; n < view->count; n++) {
                size_t next = nearest(view, set);

                if (next == NEAR_DEVICES)
                        return 0;
                set |= UINT32_C(1) << next;
        }
        return set;
}

static struct candidate judge(const struct near_view *view, uint32_t set)
{
        struct candidate one = { .set = set,
                                 .apart = near_apart(view->devices, view->n, set),
                                 .nodes = nodes_of(view, set) };

        for (size_t i = 0; i < view->n; i++)
                if (has(set, i) && __builtin_add_overflow(one.cost, view->devices[i].cost, &one.cost))
                        one.cost = view->devices[i].cost < 0 ? INT64_MIN : INT64_MAX;
        return one;
}

/* N2. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
        if (a->apart != b->apart)
                return a->apart < b->apart;
        if (a->nodes != b->nodes)
                return a->nodes < b->nodes;
        if (a->cost != b->cost)
                return a->cost < b->cost;
        return __builtin_ctz(a->set ^ b->set) == __builtin_ctz(a->set & (a->set ^ b->set));
}

static size_t insert(struct candidate *list, size_t n, struct candidate one)
{
        size_t at = n;

        for (size_t i = 0; i < n; i++)
                if (list[i].set == one.set)
                        return n;
        for (; at && is_better(&one, &list[at - 1]); at--)
                list[at] = list[at - 1];
        list[at] = one;
        return n + 1;
}

size_t near_pick(const struct near_view *view, uint32_t ret[static NEAR_DEVICES])
{
        struct candidate list[NEAR_DEVICES];
        size_t n = 0;

        for (size_t i = 0; i < view->n; i++) {
                uint32_t set = has(view->may, i) ? grow(view, i) : 0;

                if (set)
                        n = insert(list, n, judge(view, set));
        }
        for (size_t i = 0; i < n; i++)
                ret[i] = list[i].set;
        return n;
}
