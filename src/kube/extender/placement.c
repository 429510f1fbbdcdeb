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

#define IN_TURNS ((int64_t)1 << 58) /* a cost above all others, of which a set's have a sum */

struct search {
        struct placement_device devices[PLACEMENT_DEVICES]; /* a copy that the search fills */
        struct placement_node view;                         /* of them */
        struct placement_want wants[PLACEMENT_WANTS];
        unsigned char order[PLACEMENT_WANTS]; /* of wants, largest first */
        size_t n_wants;
        bool has_swap;
        bool is_near; /* a set is one step */
        enum placement_policy policy;
        const struct placement_mix *mix;
        unsigned int steps;
        struct placement placement;
};

/* What is not promised to anybody; less than nothing where those with swap take turns. */
static int64_t spare(const struct placement_device *device)
{
        return (int64_t)(device->total - device->used - device->swapped.sum);
}

static bytes left(bytes whole, bytes part)
{
        return part < whole ? whole - part : 0;
}

bytes placement_free(const struct placement_device *device, bool has_swap)
{
        bytes room = device->is_unhealthy ? 0 : left(device->total, device->used);

        return has_swap ? room : left(room, device->swapped.sum);
}

bytes placement_rented(const struct placement_device *device)
{
        bytes sum;

        return __builtin_add_overflow(device->used, device->swapped.sum, &sum) ? UINT64_MAX : sum;
}

void placement_charge(struct placement_device *device, const struct placement_want *want, bool has_swap)
{
        if (has_swap)
                exchange_add(&device->swapped, want->memory);
        else if (__builtin_add_overflow(device->used, want->memory, &device->used))
                device->used = UINT64_MAX;
        if (__builtin_add_overflow(device->share_used, want->share, &device->share_used))
                device->share_used = UINT32_MAX;
}

static unsigned int free_share(const struct placement_device *device)
{
        return device->share_used >= PLACEMENT_WHOLE ? 0 : PLACEMENT_WHOLE - device->share_used;
}

/* P5: with one more on device `at`; NULL: as it is. */
static bool host_holds(const struct placement_node *node, size_t at, const struct placement_want *want)
{
        struct exchange_host host = { 0 };

        for (size_t i = 0; i < node->n_devices; i++) {
                struct exchange with = node->devices[i].swapped;

                if (want && i == at)
                        exchange_add(&with, want->memory);
                exchange_host_add(&host, &with, left(node->devices[i].total, node->devices[i].used));
        }
        return exchange_host_needs(&host, node->is_spread) <= node->swap;
}

static bool fits(const struct placement_node *node, size_t at, const struct placement_want *want, bool has_swap)
{
        const struct placement_device *device = &node->devices[at];

        return placement_free(device, has_swap) >= want->memory && free_share(device) >= want->share &&
               (!has_swap || host_holds(node, at, want));
}

/* Lower is better. */
static int64_t cost(const struct placement_device *device, const struct placement_want *want,
                    enum placement_policy policy, const struct placement_mix *mix)
{
        bytes before = placement_free(device, false), after = before - want->memory;

        if (want->memory > before) /* P5: with others in turns */
                return IN_TURNS - spare(device);
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

        for (size_t i = 0; i < search->view.n_devices; i++) {
                struct candidate one = { .device = (unsigned char)i };
                size_t at = n;

                if (!fits(&search->view, i, want, search->has_swap) || has_set(search, depth, i))
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
        placement_charge(&search->devices[device], &search->wants[search->order[depth]], search->has_swap);
        search->placement.device[search->order[depth]] = (unsigned char)device;
}

static bool descend(struct search *search, size_t depth);

static size_t near_sets(const struct search *search, size_t depth, unsigned int count, uint32_t sets[NEAR_DEVICES])
{
        const struct placement_want *want = &search->wants[search->order[depth]];
        struct near_device devices[NEAR_DEVICES];
        struct near_view view = { devices, search->view.n_devices, 0, count };

        for (size_t i = 0; i < search->view.n_devices; i++) {
                const struct placement_device *device = &search->devices[i];
                bool may = fits(&search->view, i, want, search->has_swap);

                devices[i] = (struct near_device){ device->nvlink, (int)device->numa,
                                                   may ? cost(device, want, search->policy, search->mix) : 0 };
                view.may |= (uint32_t)may << i;
        }
        return near_pick(&view, sets);
}

/* A set, whose wants are adjacent in the order. */
static bool descend_set(struct search *search, size_t depth)
{
        struct placement_device before[PLACEMENT_DEVICES];
        uint32_t sets[NEAR_DEVICES];
        unsigned int count = 1;
        size_t n;

        while (depth + count < search->n_wants &&
               search->wants[search->order[depth + count]].set == search->wants[search->order[depth]].set)
                count++;
        n = near_sets(search, depth, count, sets);
        memcpy(before, search->devices, search->view.n_devices * sizeof(*before));
        for (size_t i = 0; i < n && search->steps++ < PLACEMENT_STEPS; i++) {
                uint32_t left = sets[i];

                for (size_t k = depth; k < depth + count; k++, left &= left - 1)
                        place_want(search, k, (size_t)__builtin_ctz(left));
                if ((!search->has_swap || host_holds(&search->view, 0, NULL)) && descend(search, depth + count))
                        return true;
                memcpy(search->devices, before, search->view.n_devices * sizeof(*before));
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
                const struct placement_device before = search->devices[found[i].device];

                place_want(search, depth, found[i].device);
                if (descend(search, depth + 1))
                        return true;
                search->devices[found[i].device] = before;
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
static int why_not(const struct placement_node *node, const struct placement_want *want, unsigned int count,
                   bool has_swap)
{
        unsigned int large = 0, roomy = 0, held = 0, fitting = 0;

        for (size_t i = 0; i < node->n_devices; i++) {
                const struct placement_device *device = &node->devices[i];
                bool has_room = placement_free(device, has_swap) >= want->memory;

                large += !device->is_unhealthy && device->total >= want->memory;
                roomy += has_room;
                held += has_room && (!has_swap || host_holds(node, i, want));
                fitting += fits(node, i, want, has_swap);
        }
        return !large || want->share > PLACEMENT_WHOLE ? PLACEMENT_E_LARGE :
               large < count                           ? PLACEMENT_E_FEW :
               !roomy                                  ? PLACEMENT_E_FULL :
               !held                                   ? PLACEMENT_E_HOST :
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
                int one = why_not(node, &request->wants[i], count_of(request, i), request->has_swap);

                worst = one < worst ? one : worst; /* outcomes are ordered, the most final first */
        }
        /* What keeps the devices of one container apart is the host's part only. */
        if (worst == PLACEMENT_E_TOGETHER && request->has_swap && request->wants[0].set)
                return PLACEMENT_E_HOST;
        return worst;
}

/* One want: the answer of the search, in one pass without a copy. */
static int pick_one(const struct placement_node *node, const struct placement_want *want, bool has_swap,
                    enum placement_policy policy, const struct placement_mix *mix, struct placement *ret)
{
        int64_t best = 0;
        size_t at = PLACEMENT_DEVICES;

        for (size_t i = 0; i < node->n_devices && i < PLACEMENT_DEVICES; i++) {
                int64_t one;

                if (!fits(node, i, want, has_swap))
                        continue;
                one = cost(&node->devices[i], want, policy, mix);
                if (at < PLACEMENT_DEVICES && one >= best)
                        continue;
                best = one;
                at = i;
        }
        if (at == PLACEMENT_DEVICES)
                return why_not(node, want, 1, has_swap);
        memset(ret, (int)at, sizeof(*ret));
        return PLACEMENT_OK;
}

static int pick_several(const struct placement_node *node, const struct placement_request *request,
                        enum placement_policy policy, const struct placement_mix *mix, struct placement *ret)
{
        struct search search; /* 3 KiB, mostly unused: not zeroed as a whole, for it is here 10,000 times a request */
        bool found;

        search.policy = policy;
        search.mix = mix;
        search.has_swap = request->has_swap;
        search.steps = 0;
        memset(&search.placement, 0, sizeof(search.placement));
        search.view = *node;
        search.view.devices = search.devices;
        if (node->n_devices > PLACEMENT_DEVICES)
                search.view.n_devices = PLACEMENT_DEVICES;
        memcpy(search.devices, node->devices, search.view.n_devices * sizeof(*search.devices));
        search.n_wants = request->n_wants;
        memcpy(search.wants, request->wants, request->n_wants * sizeof(*request->wants));
        sort_wants(&search);
        search.view.is_spread |= search.wants[search.order[0]].set != 0;
        search.is_near = true;
        found = descend(&search, 0);
        if (!found && search.wants[search.order[0]].set) {
                search.is_near = false;
                search.steps = 0;
                found = descend(&search, 0);
        }
        if (!found)
                return why_no_placement(&search.view, request);
        *ret = search.placement;
        return PLACEMENT_OK;
}

/* A node without host memory takes no pod with swap, also where it would fit: the daemon refuses it. */
int placement_pick(const struct placement_node *node, const struct placement_request *request,
                   enum placement_policy policy, const struct placement_mix *mix, struct placement *ret)
{
        struct placement_want sum;

        if (!node->n_devices)
                return PLACEMENT_E_NONE;
        if (request->has_swap && !node->swap)
                return PLACEMENT_E_NO_SWAP;
        if (!request->is_together && request->n_wants > 1)
                return pick_several(node, request, policy, mix, ret);
        sum = together(request);
        return pick_one(node, &sum, request->has_swap, policy, mix, ret);
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
