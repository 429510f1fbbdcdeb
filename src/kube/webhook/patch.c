/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/webhook/patch.h"

#include "base/cleanup.h"
#include "kube/client/names.h"
#include "kube/extender/object.h"

#include <inttypes.h>
#include <stdio.h>

enum {
        PATH = 160,
};

static const char *const lists[] = { "limits", "requests" };

void patch_add(json_t *patches, const char *op, const char *path, json_t *value)
{
        json_t *one = json_pack("{s:s,s:s}", "op", op, "path", path);

        if (value)
                (void)json_object_set_new(one, "value", value);
        (void)json_array_append_new(patches, one);
}

void patch_escape(const char *key, char *to, size_t size)
{
        size_t n = 0;

        for (; *key && n + 3 < size; key++) {
                if (*key == '~' || *key == '/') {
                        to[n++] = '~';
                        to[n++] = *key == '~' ? '0' : '1';
                } else
                        to[n++] = *key;
        }
        to[n] = '\0';
}

/* ---- several devices --------------------------------------------------------------------------- */

/* The largest quantity of that name in limits and requests, which the API server keeps equal; false: one is none. */
static bool quantity_of(const json_t *resources, const char *name, uint64_t *ret)
{
        uint64_t most = 0, one;

        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                const json_t *json = json_object_get(json_object_get(resources, lists[i]), name);

                if (!json)
                        continue;
                if (object_quantity(json, &one) < 0)
                        return false;
                most = one > most ? one : most;
        }
        *ret = most;
        return true;
}

/* In limits and requests, wherever it is; text NULL: it goes. */
static void set_quantity(const json_t *resources, const char *name, size_t i, const char *text, json_t *patches)
{
        char path[PATH], part[64];

        patch_escape(name, part, sizeof(part));
        for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
                if (!json_object_get(json_object_get(resources, lists[k]), name))
                        continue;
                (void)snprintf(path, sizeof(path), "/spec/containers/%zu/resources/%s/%s", i, lists[k], part);
                patch_add(patches, text ? "replace" : "remove", path, text ? json_string(text) : NULL);
        }
}

static void multiply(const json_t *resources, const char *name, size_t i, uint64_t count, json_t *patches)
{
        uint64_t value = 0;
        char text[24];

        if (!quantity_of(resources, name, &value) || !value)
                return;
        (void)snprintf(text, sizeof(text), "%" PRIu64, value * count);
        set_quantity(resources, name, i, text, patches);
}

/* The number of devices to annotate; 0: it asks for none, or for what cannot be granted. */
static uint64_t patch_container(const json_t *container, size_t i, json_t *patches)
{
        const json_t *resources = json_object_get(container, "resources");
        uint64_t count = 0, memory = 0, share = 0;

        if (!quantity_of(resources, NAME_COUNT, &count) || !quantity_of(resources, NAME_MEMORY, &memory) ||
            !quantity_of(resources, NAME_SHARE, &share) || !count || count > PLACEMENT_WANTS || !memory ||
            memory > OBJECT_UNITS_MAX / count || share > 100)
                return 0;
        if (count > 1) {
                multiply(resources, NAME_MEMORY, i, count, patches);
                multiply(resources, NAME_SHARE, i, count, patches);
        }
        set_quantity(resources, NAME_COUNT, i, NULL, patches);
        return count;
}

void patch_counts(const json_t *pod, json_t *patches)
{
        const json_t *annotations = json_object_get(json_object_get(pod, "metadata"), "annotations"), *container;
        const char *old = json_string_value(json_object_get(annotations, ANNOTATION_COUNTS));
        json_t *counts = old ? json_loads(old, JSON_REJECT_DUPLICATES, NULL) : NULL;
        _cleanup_(freep) char *text = NULL;
        bool is_new = false;
        size_t i;

        if (!json_is_object(counts)) {
                json_decref(counts);
                counts = json_object();
        }
        json_array_foreach (json_object_get(json_object_get(pod, "spec"), "containers"), i, container) {
                const char *name = json_string_value(json_object_get(container, "name"));
                uint64_t count = name ? patch_container(container, i, patches) : 0;

                if (count)
                        (void)json_object_set_new(counts, name, json_integer((json_int_t)count));
                is_new |= count > 0;
        }
        text = is_new ? json_dumps(counts, JSON_COMPACT) : NULL;
        json_decref(counts);
        if (!text)
                return;
        if (!json_is_object(annotations))
                patch_add(patches, "add", "/metadata/annotations", json_object());
        patch_add(patches, "add", "/metadata/annotations/sublet.dev~1gpu-counts", json_string(text));
}
