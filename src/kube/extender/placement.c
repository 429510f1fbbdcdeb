/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A depth-first search over the wants, largest first, that tries the devices in the policy's order. Nearly every pod
 * has one GPU container and needs only one pass over the devices. A policy is a cost of a device, lower is better;
 * equal costs prefer a device that the pod is on already, then its NUMA node, then the lower index, so that the same
 * view always gives the same answer.
 *
 * A set is one step of the search: it tries the sets of devices that near_pick names, which need not be all. If none of
 * them leads to a placement, the search begins again with a step for each want (P3).
 */
#include "kube/extender/placement.h"

#include "base/cleanup.h"
#include "near/near.h"

#include <errno.h>
#include <string.h>

struct search {
        struct placement_device devices[PLACEMENT_DEVICES]; /* a copy that the search fills */
        size_t n_devices;
        struct placement_want wants[PLACEMENT_WANTS];
        unsigned char order[PLACEMENT_WANTS]; /* of wants, largest first */
        size_t n_wants;
        bool is_near; /* a set is one step */
        enum placement_policy policy;
        const struct placement_mix *mix;
        unsigned int steps;
        struct placement placement;
};

bytes placement_free(const struct placement_device *device)
{
        return device->is_unhealthy || device->used >= device->total ? 0 : device->total - device->used;
}

static unsigned int free_share(const struct placement_device *device)
{
        return device->share_used >= PLACEMENT_WHOLE ? 0 : PLACEMENT_WHOLE - device->share_used;
}

static bool fits(const struct placement_device *device, const struct placement_want *want)
{
        return placement_free(device) >= want->memory && free_share(device) >= want->share;
}

/* Lower is better. */
static int64_t cost(const struct placement_device *device, const struct placement_want *want,
                    enum placement_policy policy, const struct placement_mix *mix)
{
        bytes before = placement_free(device), after = before - want->memory;

        switch (policy) {
        case PLACEMENT_BINPACK:
                return (int64_t)after;
        case PLACEMENT_SPREAD:
                return -(int64_t)after;
        case PLACEMENT_FRAGMENT:
                return (int64_t)placement_fragment(mix, after) - (int64_t)placement_fragment(mix, before);
        }
        return 0;
}

/* From the devices that the pod has already: 0 same device, 1 same NUMA node (or none yet), 2 elsewhere. */
static unsigned int distance(const struct search *search, size_t depth, size_t device)
{
        unsigned int least = depth ? 2 : 1;

        for (size_t i = 0; i < depth; i++) {
                size_t other = search->placement.device[search->order[i]];

                if (other == device)
                        return 0;
                if (search->devices[other].numa == search->devices[device].numa)
                        least = 1;
        }
        return least;
}

struct candidate {
        int64_t cost;
        unsigned int distance;
        unsigned char device;
};

static bool is_better(const struct candidate *a, const struct candidate *b)
{
        if (a->cost != b->cost)
                return a->cost < b->cost;
        if (a->distance != b->distance)
                return a->distance < b->distance;
        return a->device < b->device;
}

/* A want of the same set, placed before, is there. */
static bool has_set(const struct search *search, size_t depth, size_t device)
{
        unsigned int set = search->wants[search->order[depth]].set;

        for (size_t i = 0; set && i < depth; i++)
                if (search->wants[search->order[i]].set == set && search->placement.device[search->order[i]] == device)
                        return true;
        return false;
}

/* The devices that fit, best first. */
static size_t candidates(const struct search *search, size_t depth, struct candidate *to)
{
        const struct placement_want *want = &search->wants[search->order[depth]];
        size_t n = 0;

        for (size_t i = 0; i < search->n_devices; i++) {
                struct candidate one = { .device = (unsigned char)i };
                size_t at = n;

                if (!fits(&search->devices[i], want) || has_set(search, depth, i))
                        continue;
                one.cost = cost(&search->devices[i], want, search->policy, search->mix);
                one.distance = distance(search, depth, i);
                for (; at && is_better(&one, &to[at - 1]); at--)
                        to[at] = to[at - 1];
                to[at] = one;
                n++;
        }
        return n;
}

static void place_want(struct search *search, size_t depth, size_t device)
{
        const struct placement_want *want = &search->wants[search->order[depth]];

        search->devices[device].used += want->memory;
        search->devices[device].share_used += want->share;
        search->placement.device[search->order[depth]] = (unsigned char)device;
}

static void unplace_want(struct search *search, size_t depth)
{
        const struct placement_want *want = &search->wants[search->order[depth]];
        struct placement_device *device = &search->devices[search->placement.device[search->order[depth]]];

        device->used -= want->memory;
        device->share_used -= want->share;
}

static bool descend(struct search *search, size_t depth);

static size_t near_sets(const struct search *search, size_t depth, unsigned int count, uint32_t sets[NEAR_DEVICES])
{
        const struct placement_want *want = &search->wants[search->order[depth]];
        struct near_device devices[NEAR_DEVICES];
        struct near_view view = { devices, search->n_devices, 0, count };

        for (size_t i = 0; i < search->n_devices; i++) {
                const struct placement_device *device = &search->devices[i];
                bool may = fits(device, want);

                devices[i] = (struct near_device){ device->nvlink, (int)device->numa,
                                                   may ? cost(device, want, search->policy, search->mix) : 0 };
                view.may |= (uint32_t)may << i;
        }
        return near_pick(&view, sets);
}

/* A set, whose wants are adjacent in the order. */
static bool descend_set(struct search *search, size_t depth)
{
        uint32_t sets[NEAR_DEVICES];
        unsigned int count = 1;
        size_t n;

        while (depth + count < search->n_wants &&
               search->wants[search->order[depth + count]].set == search->wants[search->order[depth]].set)
                count++;
        n = near_sets(search, depth, count, sets);
        for (size_t i = 0; i < n && search->steps++ < PLACEMENT_STEPS; i++) {
                uint32_t left = sets[i];

                for (size_t k = depth; k < depth + count; k++, left &= left - 1)
                        place_want(search, k, (size_t)__builtin_ctz(left));
                if (descend(search, depth + count))
                        return true;
                for (size_t k = depth; k < depth + count; k++)
                        unplace_want(search, k);
        }
        return false;
}

static bool descend(struct search *search, size_t depth) /* at most PLACEMENT_WANTS deep */
{
        struct candidate found[PLACEMENT_DEVICES];
        size_t n;

        if (depth == search->n_wants)
                return true;
        if (search->is_near && search->wants[search->order[depth]].set)
                return descend_set(search, depth);
        n = candidates(search, depth, found);
        for (size_t i = 0; i < n && search->steps++ < PLACEMENT_STEPS; i++) {
                place_want(search, depth, found[i].device);
                if (descend(search, depth + 1))
                        return true;
                unplace_want(search, depth);
        }
        return false;
}

/* Sets come before single wants, for they have fewer places, and larger ones before smaller ones. */
static bool goes_before(const struct placement_want *a, const struct placement_want *b)
{
        if (!a->set != !b->set)
                return a->set;
        return a->memory > b->memory;
}

/* Equal ones stay as they are, so the wants of a set stay adjacent. */
static void sort_wants(struct search *search)
{
        for (size_t i = 0; i < search->n_wants; i++) {
                size_t at = i;

                for (; at && goes_before(&search->wants[i], &search->wants[search->order[at - 1]]); at--)
                        search->order[at] = search->order[at - 1];
                search->order[at] = (unsigned char)i;
        }
}

/* All wants as one, for one device. A sum that overflows is saturated: larger than any device. */
static struct placement_want together(const struct placement_request *request)
{
        struct placement_want sum = { 0 };

        for (size_t i = 0; i < request->n_wants; i++) {
                if (__builtin_add_overflow(sum.memory, request->wants[i].memory, &sum.memory))
                        sum.memory = UINT64_MAX;
                sum.share += request->wants[i].share;
        }
        return sum;
}

/* Why a container that needs `count` devices fits on none, or on too few. */
static int why_not(const struct placement_node *node, const struct placement_want *want, unsigned int count)
{
        unsigned int large = 0, roomy = 0, fitting = 0;

        for (size_t i = 0; i < node->n_devices; i++) {
                const struct placement_device *device = &node->devices[i];

                large += !device->is_unhealthy && device->total >= want->memory;
                roomy += placement_free(device) >= want->memory;
                fitting += fits(device, want);
        }
        return !large || want->share > PLACEMENT_WHOLE ? PLACEMENT_E_LARGE :
               large < count                           ? PLACEMENT_E_FEW :
               !roomy                                  ? PLACEMENT_E_FULL :
               !fitting                                ? PLACEMENT_E_SHARE :
               fitting < count                         ? PLACEMENT_E_TAKEN :
                                                         PLACEMENT_E_TOGETHER;
}

static unsigned int count_of(const struct placement_request *request, size_t want)
{
        unsigned int count = 0;

        for (size_t i = 0; i < request->n_wants; i++)
                count += i == want || (request->wants[i].set && request->wants[i].set == request->wants[want].set);
        return count;
}

static int why_no_placement(const struct placement_node *node, const struct placement_request *request)
{
        int worst = PLACEMENT_OUTCOMES;

        for (size_t i = 0; i < request->n_wants; i++) {
                int one = why_not(node, &request->wants[i], count_of(request, i));

                worst = one < worst ? one : worst; /* outcomes are ordered, the most final first */
        }
        return worst;
}

/* One want: the answer of the search, in one pass without a copy. */
static int pick_one(const struct placement_node *node, const struct placement_want *want, enum placement_policy policy,
                    const struct placement_mix *mix, struct placement *ret)
{
        int64_t best = 0;
        size_t at = PLACEMENT_DEVICES;

        for (size_t i = 0; i < node->n_devices && i < PLACEMENT_DEVICES; i++) {
                int64_t one;

                if (!fits(&node->devices[i], want))
                        continue;
                one = cost(&node->devices[i], want, policy, mix);
                if (at < PLACEMENT_DEVICES && one >= best)
                        continue;
                best = one;
                at = i;
        }
        if (at == PLACEMENT_DEVICES)
                return why_not(node, want, 1);
        memset(ret, (int)at, sizeof(*ret));
        return PLACEMENT_OK;
}

static int pick_several(const struct placement_node *node, const struct placement_request *request,
                        enum placement_policy policy, const struct placement_mix *mix, struct placement *ret)
{
        struct search search; /* 2 KiB, mostly unused: not zeroed as a whole, for it is here 10,000 times a request */
        bool found;

        search.policy = policy;
        search.mix = mix;
        search.steps = 0;
        memset(&search.placement, 0, sizeof(search.placement));
        search.n_devices = node->n_devices < PLACEMENT_DEVICES ? node->n_devices : PLACEMENT_DEVICES;
        memcpy(search.devices, node->devices, search.n_devices * sizeof(*search.devices));
        search.n_wants = request->n_wants;
        memcpy(search.wants, request->wants, request->n_wants * sizeof(*request->wants));
        sort_wants(&search);
        search.is_near = true;
        found = descend(&search, 0);
        if (!found && search.wants[search.order[0]].set) {
                search.is_near = false;
                search.steps = 0;
                found = descend(&search, 0);
        }
        if (!found)
                return why_no_placement(node, request);
        *ret = search.placement;
        return PLACEMENT_OK;
}

int placement_pick(const struct placement_node *node, const struct placement_request *request,
                   enum placement_policy policy, const struct placement_mix *mix, struct placement *ret)
{
        struct placement_want sum;

        if (!node->n_devices)
                return PLACEMENT_E_NONE;
        if (!request->is_together && request->n_wants > 1)
                return pick_several(node, request, policy, mix, ret);
        sum = together(request);
        return pick_one(node, &sum, policy, mix, ret);
}

int placement_policy_parse(const char *text, enum placement_policy *ret)
{
        static const char *const names[] = { "binpack", "spread", "fragment" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!strcmp(text, names[i])) {
                        *ret = (enum placement_policy)i;
                        return 0;
                }
        return -EINVAL;
}
