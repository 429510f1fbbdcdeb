/* SPDX-License-Identifier: Apache-2.0 */
/* The mix of usual requests, what is too small for them, and how good a placement is. */
#include "kube/extender/placement.h"

enum {
        MIX_FULL = 4096,
};

/* ---- the mix ----------------------------------------------------------------------------------- */

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
        bytes before = placement_free(device, false), after = before - memory, total = device->total;

        if (memory > before) /* with others in turns: any other node is better */
                return 0;

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

/* Whether a container's devices are all joined by NVLink; one device is. */
static bool are_joined(const struct placement_node *node, const struct placement_request *request,
                       const struct placement *placement)
{
        for (size_t i = 1; i < request->n_wants; i++)
                for (size_t k = 0; k < i; k++)
                        if (request->wants[i].set && request->wants[i].set == request->wants[k].set &&
                            !(node->devices[placement->device[i]].nvlink >> placement->device[k] & 1))
                                return false;
        return true;
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
        sum = n ? sum / n : 0;
        return are_joined(node, request, placement) ? sum : sum / 2; /* another node may have neighbours */
}
