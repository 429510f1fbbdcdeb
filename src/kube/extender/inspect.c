/* SPDX-License-Identifier: Apache-2.0 */
/* gpushare's inspect: which pod holds how much of which device; and the sums for the metrics. */
#include "kube/extender/extend.h"

static bytes held_on(const struct cluster_pod *pod, size_t device)
{
        bytes sum = 0;

        for (size_t i = 0; i < pod->n_wants; i++)
                if (!pod->is_placed || pod->devices[i] == device)
                        sum += pod->wants[i].memory;
        return sum;
}

static json_t *device_json(const struct extend *extend, const struct cluster_node *node, size_t i)
{
        bytes unit = extend->cluster.unit;
        json_t *pods = json_array();

        for (const struct cluster_pod *pod = node->pods; pod; pod = pod->next_here) {
                bytes held = held_on(pod, i);

                if (held)
                        (void)json_array_append_new(pods,
                                                    json_pack("{s:s,s:s,s:I}", "name", pod->name, "namespace",
                                                              pod->namespace, "usedGPU", (json_int_t)(held / unit)));
        }
        return json_pack("{s:i,s:s,s:I,s:I,s:i,s:b,s:o}", "id", (int)i, "uuid", node->uuids[i], "totalGPU",
                         (json_int_t)(node->devices[i].total / unit), "usedGPU",
                         (json_int_t)(placement_rented(&node->devices[i]) / unit), "usedShare",
                         (int)(node->devices[i].share_used / (PLACEMENT_WHOLE / 100)), "healthy",
                         (int)!node->devices[i].is_unhealthy, "pods", pods);
}

static json_t *node_json(const struct extend *extend, const struct cluster_node *node)
{
        json_t *devices = json_array();
        bytes total = 0, used = 0;

        for (size_t i = 0; i < node->n_devices; i++) {
                total += node->devices[i].total;
                used += placement_rented(&node->devices[i]);
                (void)json_array_append_new(devices, device_json(extend, node, i));
        }
        return json_pack("{s:s,s:I,s:I,s:o}", "name", node->name, "totalGPU",
                         (json_int_t)(total / extend->cluster.unit), "usedGPU",
                         (json_int_t)(used / extend->cluster.unit), "devs", devices);
}

json_t *extend_inspect(const struct extend *extend, const char *name)
{
        const struct cluster_node *node = name ? cluster_node(&extend->cluster, name) : NULL;
        json_t *nodes = json_array();

        if (name && !node) {
                json_decref(nodes);
                return json_pack("{s:[],s:s}", "nodes", "error", "there is no such node");
        }
        if (node)
                (void)json_array_append_new(nodes, node_json(extend, node));
        for (size_t i = 0; !name && (node = map_next(&extend->cluster.nodes, &i)) != NULL;)
                for (; node; node = node->next)
                        if (node->is_known && node->n_devices)
                                (void)json_array_append_new(nodes, node_json(extend, node));
        return json_pack("{s:o}", "nodes", nodes);
}

void extend_count(const struct extend *extend, struct extend_totals *ret)
{
        const struct cluster_node *node;

        *ret = (struct extend_totals){ 0 };
        for (size_t i = 0; (node = map_next(&extend->cluster.nodes, &i)) != NULL;)
                for (; node; node = node->next) {
                        for (size_t k = 0; k < node->n_devices; k++) {
                                ret->memory += node->devices[k].total;
                                ret->rented += placement_rented(&node->devices[k]);
                        }
                        for (const struct cluster_pod *pod = node->pods; pod; pod = pod->next_here)
                                ret->n_unplaced += !pod->is_placed;
                }
}
