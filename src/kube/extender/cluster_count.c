/* SPDX-License-Identifier: Apache-2.0 */
/* What the pods of a node have promised to them (C1, C3). */
#include "kube/extender/cluster.h"

#include <string.h>

static void count_pod(const struct cluster_pod *pod, struct placement_device *devices, struct placement_node *to)
{
        for (size_t i = 0; i < pod->n_wants; i++) {
                if (pod->is_placed) {
                        if (pod->devices[i] < to->n_devices)
                                placement_charge(&devices[pod->devices[i]], &pod->wants[i], pod->has_swap);
                        to->is_spread |= pod->has_swap && pod->wants[i].set;
                        continue;
                }
                for (size_t k = 0; k < to->n_devices; k++) /* C3 */
                        placement_charge(&devices[k], &pod->wants[i], false);
        }
}

static bool is_among(const char *uid, const char *const *uids, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!strcmp(uid, uids[i]))
                        return true;
        return false;
}

struct placement_node cluster_view(const struct cluster_node *node)
{
        return (struct placement_node){ node->devices, node->n_devices, node->swap, node->is_spread };
}

struct placement_node cluster_view_without(const struct cluster_node *node, const char *const *without,
                                           size_t n_without, struct placement_device to[static PLACEMENT_DEVICES])
{
        struct placement_node view = { to, node->n_devices, node->swap, false };

        for (size_t i = 0; i < node->n_devices; i++) {
                to[i] = node->devices[i];
                to[i].used = 0;
                to[i].swapped = (struct exchange){ 0 };
                to[i].share_used = 0;
        }
        for (const struct cluster_pod *pod = node->pods; pod; pod = pod->next_here)
                if (!is_among(pod->uid, without, n_without))
                        count_pod(pod, to, &view);
        return view;
}
