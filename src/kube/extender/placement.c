/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A depth-first search over the wants, largest first, that tries the devices in the policy's order. Nearly every pod
 * has one GPU container and needs only one pass over the devices. A policy is a cost of a device, lower is better;
 * equal costs prefer a device that the pod is on already, then its NUMA node, then the lower index, so that the same
 * view always gives the same answer.
 */
#include "kube/extender/placement.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

enum {
        MIX_FULL = 4096,
};

struct search {
        struct placement_device devices[PLACEMENT_DEVICES]; /* a copy that the search fills */
        size_t n_devices;
        struct placement_want wants[PLACEMENT_WANTS];
        unsigned char order[PLACEMENT_WANTS]; /* of wants, largest first */
        size_t n_wants;
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

bytes placement_fragment(const struct placement_mix *mix, bytes free)
{
        unsigned int weight = 0;

        if (!mix || !mix->weight)
                return 0;
        for (size_t i = 0; i < mix->n_sizes; i++)
                if (mix->sizes[i].size > free)
                        weight += mix->sizes[i].weight;
        return (bytes)((unsigned __int128)free * weight / mix->weight);
}

static void mix_halve(struct placement_mix *mix)
{
        size_t n = 0;

        mix->weight = 0;
        for (size_t i = 0; i < mix->n_sizes; i++) {
                unsigned int weight = mix->sizes[i].weight / 2;

                if (!weight)
                        continue;
                mix->sizes[n] = mix->sizes[i];
                mix->sizes[n++].weight = weight;
                mix->weight += weight;
        }
        mix->n_sizes = n;
}

void placement_mix_count(struct placement_mix *mix, bytes size)
{
        size_t i = 0;

        if (mix->weight >= MIX_FULL)
                mix_halve(mix);
        while (i < mix->n_sizes && mix->sizes[i].size != size)
                i++;
        if (i == PLACEMENT_SIZES)
                return; /* a rare size waits until a halving makes room */
        if (i == mix->n_sizes) {
                mix->n_sizes++;
                mix->sizes[i].size = size;
                mix->sizes[i].weight = 0;
        }
        mix->sizes[i].weight++;
        mix->weight++;
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

/* The devices that fit, best first. */
static size_t candidates(const struct search *search, size_t depth, struct candidate *to)
{
        const struct placement_want *want = &search->wants[search->order[depth]];
        size_t n = 0;

        for (size_t i = 0; i < search->n_devices; i++) {
                struct candidate one = { .device = (unsigned char)i };
                size_t at = n;

                if (!fits(&search->devices[i], want))
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

static bool descend(struct search *search, size_t depth) /* at most PLACEMENT_WANTS deep */
{
        struct candidate found[PLACEMENT_DEVICES];
        const struct placement_want *want;
        size_t n;

        if (depth == search->n_wants)
                return true;
        n = candidates(search, depth, found);
        want = &search->wants[search->order[depth]];
        for (size_t i = 0; i < n && search->steps++ < PLACEMENT_STEPS; i++) {
                struct placement_device *device = &search->devices[found[i].device];

                device->used += want->memory;
                device->share_used += want->share;
                search->placement.device[search->order[depth]] = found[i].device;
                if (descend(search, depth + 1))
                        return true;
                device->used -= want->memory;
                device->share_used -= want->share;
        }
        return false;
}

static void sort_wants(struct search *search)
{
        for (size_t i = 0; i < search->n_wants; i++) {
                size_t at = i;

                for (; at && search->wants[search->order[at - 1]].memory < search->wants[i].memory; at--)
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

/* Why one want fits on no device. */
static int why_not(const struct placement_node *node, const struct placement_want *want)
{
        bool is_large = true, is_full = true;

        for (size_t i = 0; i < node->n_devices; i++) {
                const struct placement_device *device = &node->devices[i];

                is_large &= device->is_unhealthy || device->total < want->memory;
                is_full &= placement_free(device) < want->memory;
        }
        return is_large || want->share > PLACEMENT_WHOLE ? PLACEMENT_E_LARGE :
               is_full                                   ? PLACEMENT_E_FULL :
                                                           PLACEMENT_E_SHARE;
}

static int why_no_placement(const struct placement_node *node, const struct placement_request *request)
{
        int worst = PLACEMENT_OUTCOMES;

        for (size_t i = 0; i < request->n_wants; i++) {
                bool has_room = false;
                int one;

                for (size_t k = 0; k < node->n_devices; k++)
                        has_room |= fits(&node->devices[k], &request->wants[i]);
                one = has_room ? PLACEMENT_E_TOGETHER : why_not(node, &request->wants[i]);
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
                return why_not(node, want);
        memset(ret, (int)at, sizeof(*ret));
        return PLACEMENT_OK;
}

static int pick_several(const struct placement_node *node, const struct placement_request *request,
                        enum placement_policy policy, const struct placement_mix *mix, struct placement *ret)
{
        struct search search; /* 2 KiB, mostly unused: not zeroed as a whole, for it is here 10,000 times a request */

        search.policy = policy;
        search.mix = mix;
        search.steps = 0;
        memset(&search.placement, 0, sizeof(search.placement));
        search.n_devices = node->n_devices < PLACEMENT_DEVICES ? node->n_devices : PLACEMENT_DEVICES;
        memcpy(search.devices, node->devices, search.n_devices * sizeof(*search.devices));
        search.n_wants = request->n_wants;
        memcpy(search.wants, request->wants, request->n_wants * sizeof(*request->wants));
        sort_wants(&search);
        if (!descend(&search, 0))
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

/* ---- scores ------------------------------------------------------------------------------------ */

/*
 * The score of a loss to fragments: 8 for none, 9 and 10 for a gain, and one less for each sixteenth of the device. The
 * scale is fine for losses because most are small; in simulations of mixed requests it served more and stranded less
 * than an even scale.
 */
static unsigned int score_fragment(int64_t worse, bytes total)
{
        const bytes size = (bytes)(worse < 0 ? -worse : worse);
        unsigned int steps;

        if (worse <= 0) {
                steps = (unsigned int)((unsigned __int128)size * 8 / total);
                return 8 + (steps < 2 ? steps : 2);
        }
        steps = (unsigned int)(((unsigned __int128)size * 16 + total - 1) / total);
        return steps < 8 ? 8 - steps : 0;
}

static unsigned int score_device(const struct placement_device *device, bytes memory, enum placement_policy policy,
                                 const struct placement_mix *mix)
{
        bytes before = placement_free(device), after = before - memory, total = device->total;

        switch (policy) {
        case PLACEMENT_BINPACK:
                return (unsigned int)((unsigned __int128)(total - after) * PLACEMENT_SCORE_MAX / total);
        case PLACEMENT_SPREAD:
                return (unsigned int)((unsigned __int128)after * PLACEMENT_SCORE_MAX / total);
        case PLACEMENT_FRAGMENT:
                return score_fragment(
                        (int64_t)placement_fragment(mix, after) - (int64_t)placement_fragment(mix, before), total);
        }
        return 0;
}

unsigned int placement_score(const struct placement_node *node, const struct placement_request *request,
                             enum placement_policy policy, const struct placement_mix *mix,
                             const struct placement *placement)
{
        bytes memory[PLACEMENT_DEVICES] = { 0 };
        unsigned int sum = 0, n = 0;

        for (size_t i = 0; i < request->n_wants; i++)
                memory[placement->device[i]] += request->wants[i].memory;
        for (size_t i = 0; i < node->n_devices && i < PLACEMENT_DEVICES; i++) {
                if (!memory[i])
                        continue;
                sum += score_device(&node->devices[i], memory[i], policy, mix);
                n++;
        }
        return n ? sum / n : 0;
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
