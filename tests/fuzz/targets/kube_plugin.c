/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf that kubelet may send, to each question and each kind of resource; and what is no message at all. */
#include "base/cleanup.h"
#include "kube/plugin/grpc_inside.h"
#include "kube/plugin/plugin.h"

#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct plugin_node node = {
        .devices = { { .uuid = "GPU-a", .index = 0, .memory = 16 * GIB, .is_healthy = true },
                     { .uuid = "GPU-b", .index = 1, .memory = 8 * GIB, .is_healthy = true },
                     { .uuid = "GPU-c", .index = 2, .memory = 8 * GIB } },
        .n_devices = 3,
        .is_daemon_up = true,
};

static const struct plugin_resource resources[] = {
        { .name = "sublet.dev/gpu-mem", .kind = PLUGIN_MEMORY, .unit = GIB },
        { .name = "aliyun.com/gpu-mem", .kind = PLUGIN_MEMORY, .unit = GIB, .is_aliyun = true },
        { .name = "sublet.dev/gpu-share", .kind = PLUGIN_SHARE },
        { .name = "sublet.dev/gpu-count", .kind = PLUGIN_COUNT },
        { .name = "nvidia.com/gpu.shared", .kind = PLUGIN_SEATS, .seats = 4 },
        { .name = "nvidia.com/gpu.shared", .kind = PLUGIN_MPS, .seats = 4 },
};

static int lease(void *context, const struct plugin_lease_request *asked, struct plugin_mount ret[static PLUGIN_MOUNTS],
                 struct err *err)
{
        (void)context;
        (void)err;
        assert(asked->n_ids && asked->memory && asked->device);
        for (size_t i = 0; i < PLUGIN_MOUNTS; i++)
                ret[i] = (struct plugin_mount){ "/from", "/to", i & 1 };
        return asked->n_ids % 3 ? PLUGIN_MOUNTS : -EBUSY;
}

static const struct plugin_ways ways[] = {
        { .mps = "/run/mps" },
        { .mps = "/run/mps", .is_placed = true, .has_cdi = true, .has_annotation = true, .has_nodes = true },
        { .lease = lease },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(grpc_message_done) struct grpc_message answer = { 0 };
        const struct plugin_resource *resource;
        _cleanup_(grpc_body_done) struct grpc_body body = { 0 };
        struct grpc_message request = { 0 };
        int r;

        if (size < 1)
                return 0;
        resource = &resources[(data[0] >> 3) % ARRAY_SIZE(resources)];
        if (grpc_body_add(&body, data + 1, size - 1) < 0)
                return 0;
        if (data[0] & 4)
                request = (struct grpc_message){ body.data, body.size };
        else if (grpc_body_message(&body, &request) != GRPC_OK)
                return 0;
        switch (data[0] & 3) {
        case 0:
                r = plugin_allocate(resource, &node, &ways[(data[0] >> 6) % ARRAY_SIZE(ways)], &request, &answer, NULL);
                break;
        case 1:
                r = plugin_prefer(resource, &node, &request, &answer, NULL);
                break;
        default:
                r = plugin_pre_start(resource, &node, &request, &answer, NULL);
                break;
        }
        assert(r <= 0);
        assert(r == 0 || !answer.data);
        return 0;
}
