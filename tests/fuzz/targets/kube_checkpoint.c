/* SPDX-License-Identifier: Apache-2.0 */
/* Kubelet's checkpoint and, after a NUL, a pod of the API server: together they give a table that the daemon
 * accepts. */
#include "base/cleanup.h"
#include "kube/plugin/allocations.h"
#include "kube/plugin/plugin_leases.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A directory's name is one that we would have written; and no lease is over while its rows are there. */
#define NOW (1000000 * NSEC_PER_SEC)

static void check_leases(const struct checkpoint *checkpoint, const char *text)
{
        char again[LEASES_NAME];
        struct leases_name name;

        if (text && leases_name_parse(text, &name) == 0) {
                leases_name_format(name, again);
                assert(!strcmp(again, text));
                (void)leases_is_expired(&name, 0, checkpoint, NULL, NOW);
        }
        for (size_t i = 0; i < checkpoint->n_rows && i < 16; i++) {
                const struct checkpoint_row *row = &checkpoint->rows[i];

                name = (struct leases_name){ leases_hash(row->resource, row->ids, row->n_ids), 0 };
                assert(!leases_is_expired(&name, 0, checkpoint, NULL, NOW));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct plugin_node node = {
        .devices = { { .uuid = "GPU-a", .index = 0, .memory = 16 * GIB, .is_healthy = true },
                     { .uuid = "GPU-b", .index = 1, .memory = 8 * GIB, .is_healthy = true } },
        .n_devices = 2,
        .is_daemon_up = true,
};

static const struct plugin_resource resources[] = {
        { .name = "sublet.dev/gpu-mem", .kind = PLUGIN_MEMORY, .unit = GIB },
        { .name = "sublet.dev/gpu-share", .kind = PLUGIN_SHARE },
        { .name = "sublet.dev/gpu-count", .kind = PLUGIN_COUNT },
};

static void check(const struct checkpoint *checkpoint, const struct pods *pods)
{
        const struct allocations_view view = {
                checkpoint, resources, ARRAY_SIZE(resources), &node, pods, pods != NULL,
        };
        struct allocations made;
        const json_t *row;
        size_t i;

        assert(allocations_make(&view, &made) == 0);
        assert(json_array_size(json_object_get(made.table, "allocations")) == made.n);
        json_array_foreach (json_object_get(made.table, "allocations"), i, row) {
                json_int_t share = json_integer_value(json_object_get(row, "share_permille"));

                assert(json_integer_value(json_object_get(row, "mem_bytes")) > 0);
                assert(share >= 0 && share <= 1000);
                assert(*json_string_value(json_object_get(row, "uuid")));
        }
        json_decref(made.table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t first = end ? (size_t)(end - data) : size;
        struct checkpoint checkpoint = { 0 };
        struct pods pods = { 0 };
        char name[64];
        json_t *pod = end ? json_loadb((const char *)end + 1, size - first - 1, 0, NULL) : NULL;

        pods_begin(&pods);
        if (pod)
                (void)pods_put(&pods, "n1", pod);
        if (checkpoint_read((const char *)data, first, &checkpoint) == 0) {
                check(&checkpoint, NULL);
                check(&checkpoint, &pods);
                (void)snprintf(name, sizeof(name), "%.*s",
                               end ? (int)(size - first - 1 < 63 ? size - first - 1 : 63) : 0,
                               end ? (const char *)end + 1 : "");
                check_leases(&checkpoint, name);
        }
        pods_end(&pods);
        pods_done(&pods);
        assert(!pods.first);
        checkpoint_done(&checkpoint);
        json_decref(pod);
        return 0;
}
