/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/dra/slice.h"

#include "kube/dra/claim.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
        ATTRIBUTE_MAX = 64, /* characters of a text */
        NUMBER_MAX = 24,
};

void slice_name(const char *node, size_t i, char *to)
{
        (void)snprintf(to, SLICE_NAME, "%.220s-" DRA_DRIVER "-%zu", node, i);
}

static int add_text(json_t *attributes, const char *name, const char *text)
{
        char cut[ATTRIBUTE_MAX + 1];

        if (!*text)
                return 0;
        (void)snprintf(cut, sizeof(cut), "%s", text);
        return json_object_set_new(attributes, name, json_pack("{s:s}", "string", cut));
}

static int add_number(json_t *attributes, const char *name, json_int_t number)
{
        return json_object_set_new(attributes, name, json_pack("{s:I}", "int", number));
}

static json_t *attributes_of(const struct slice_view *view, const json_t *device)
{
        json_t *attributes = json_object(), *numa = json_object_get(device, "numa");
        int r = add_number(attributes, "index", json_integer_value(json_object_get(device, "index")));

        r |= add_text(attributes, "uuid", claim_text(device, "uuid"));
        r |= add_text(attributes, "model", claim_text(device, "name"));
        r |= add_text(attributes, "busId", claim_text(device, "bus_id"));
        r |= add_text(attributes, "mode", claim_text(device, "mode"));
        r |= add_text(attributes, "driverRelease", view->driver);
        if (json_is_integer(numa))
                r |= add_number(attributes, "numa", json_integer_value(numa));
        if (r == 0)
                return attributes;
        json_decref(attributes);
        return NULL;
}

/* Memory without a policy: a request without an amount gets all of it. */
static json_t *capacity_of(const json_t *device)
{
        char memory[NUMBER_MAX];

        (void)snprintf(memory, sizeof(memory), "%lld",
                       (long long)json_integer_value(json_object_get(device, "memory_bytes")));
        return json_pack("{s:{s:s}, s:{s:s, s:{s:s, s:{s:s, s:s, s:s}}}}", "memory", "value", memory, "share", "value",
                         "100", "requestPolicy", "default", "0", "validRange", "min", "0", "max", "100", "step", "1");
}

static json_t *device_of(const struct slice_view *view, const json_t *device)
{
        char name[CLAIM_DEVICE_NAME];

        claim_device_name(claim_text(device, "uuid"), name);
        return json_pack("{s:s, s:b, s:o, s:o}", "name", name, "allowMultipleAllocations", true, "attributes",
                         attributes_of(view, device), "capacity", capacity_of(device));
}

static json_t *devices_of(const struct slice_view *view, size_t i)
{
        const json_t *device = json_array_get(view->devices, i);

        return strcmp(claim_text(device, "state"), "ok") ? json_array() : json_pack("[o]", device_of(view, device));
}

json_t *slice_make(const struct slice_view *view, size_t i, size_t n, json_int_t generation)
{
        char name[SLICE_NAME];
        json_t *metadata;

        slice_name(view->node, i, name);
        metadata = json_pack("{s:s}", "name", name);
        if (metadata && *view->node_uid &&
            json_object_set_new(metadata, "ownerReferences",
                                json_pack("[{s:s, s:s, s:s, s:s}]", "apiVersion", "v1", "kind", "Node", "name",
                                          view->node, "uid", view->node_uid)) < 0) {
                json_decref(metadata);
                return NULL;
        }
        return json_pack("{s:s, s:s, s:o, s:{s:s, s:s, s:{s:s, s:I, s:i}, s:o}}", "apiVersion", "resource.k8s.io/v1",
                         "kind", "ResourceSlice", "metadata", metadata, "spec", "driver", DRA_DRIVER, "nodeName",
                         view->node, "pool", "name", view->node, "generation", generation, "resourceSliceCount", (int)n,
                         "devices", devices_of(view, i));
}
