/* SPDX-License-Identifier: Apache-2.0 */
/* The list of devices, our options, the registration; and PreStartContainer. */
#include "kube/plugin/plugin_inside.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdlib.h>

static char word_healthy[] = "Healthy", word_unhealthy[] = "Unhealthy";

/* A row of the list, with its id. */
struct row {
        Plugin__Device device;
        char id[PLUGIN_ID];
        Plugin__Topology topology;
        Plugin__NumaNode node, *nodes[1];
};

/* TopologyInfo, by which kubelet aligns CPUs and devices. Not where the extender places: there an id is only an amount,
 * and aligning to it would refuse pods for the sake of a device that is not theirs. */
static void set_topology(struct row *row, const struct plugin_node *node, const struct plugin_device *device)
{
        if (node->is_placed || device->numa < 0)
                return;
        plugin__numa_node__init(&row->node);
        row->node.id = device->numa;
        row->nodes[0] = &row->node;
        plugin__topology__init(&row->topology);
        row->topology.nodes = row->nodes;
        row->topology.n_nodes = 1;
        row->device.topology = &row->topology;
}

static void fill_rows(const struct plugin_resource *resource, const struct plugin_node *node, struct row *rows,
                      Plugin__Device **list)
{
        size_t at = 0;

        for (size_t i = 0; i < node->n_devices; i++) {
                const struct plugin_device *device = &node->devices[i];

                for (unsigned int n = 0; n < plugin_ids(resource, device); n++, at++) {
                        plugin__device__init(&rows[at].device);
                        plugin_id_format(device, n, rows[at].id);
                        rows[at].device.id = rows[at].id;
                        rows[at].device.health =
                                device->is_healthy && node->is_daemon_up ? word_healthy : word_unhealthy;
                        set_topology(&rows[at], node, device);
                        list[at] = &rows[at].device;
                }
        }
}

int plugin_list(const struct plugin_resource *resource, const struct plugin_node *node, struct grpc_message *ret)
{
        _cleanup_(freep) struct row *rows = NULL;
        _cleanup_(freep) Plugin__Device **list = NULL;
        Plugin__DeviceList message = PLUGIN__DEVICE_LIST__INIT;
        size_t n = 0;

        if (plugin_fits(resource, node, NULL) < 0)
                return -EMSGSIZE;
        for (size_t i = 0; i < node->n_devices; i++)
                n += plugin_ids(resource, &node->devices[i]);
        rows = calloc(n + 1, sizeof(*rows));
        list = calloc(n + 1, sizeof(*list));
        if (!rows || !list)
                return -ENOMEM;
        fill_rows(resource, node, rows, list);
        message.devices = list;
        message.n_devices = n;
        return grpc_message_pack(&message.base, ret);
}

int plugin_options(struct grpc_message *ret)
{
        Plugin__Options options = PLUGIN__OPTIONS__INIT;

        options.pre_start_required = true;
        options.preferred_available = true;
        return grpc_message_pack(&options.base, ret);
}

int plugin_register(const char *resource, const char *endpoint, struct grpc_message *ret)
{
        char version[] = "v1beta1";
        Plugin__Options options = PLUGIN__OPTIONS__INIT;
        Plugin__RegisterRequest request = PLUGIN__REGISTER_REQUEST__INIT;

        options.pre_start_required = true;
        options.preferred_available = true;
        request.version = version;
        request.endpoint = (char *)(uintptr_t)endpoint; /* packed, not kept */
        request.resource_name = (char *)(uintptr_t)resource;
        request.options = &options;
        return grpc_message_pack(&request.base, ret);
}

int plugin_pre_start(const struct plugin_resource *resource, const struct plugin_node *node,
                     const struct grpc_message *request, struct grpc_message *ret, struct err *err)
{
        _cleanup_(pre_start_freep) Plugin__PreStartRequest *asked = NULL;
        struct plugin_amount amounts[PLUGIN_DEVICES];
        int r;

        asked = plugin__pre_start_request__unpack(NULL, request->size, request->data);
        if (!asked)
                return err_say(err, -EINVAL, "PreStartContainer: malformed request");
        r = plugin_count_ids(resource, node, asked->ids, asked->n_ids, amounts, err);
        if (r < 0)
                return r;
        *ret = (struct grpc_message){ 0 };
        return 0;
}
