/* SPDX-License-Identifier: Apache-2.0 */
/* What the extender writes on a pod. */
#include "kube/extender/object.h"

#include "base/cleanup.h"
#include "kube/client/names.h"

#include <inttypes.h>
#include <stdio.h>

static void add_device(json_t *container, int device, const char *uuid)
{
        if (!json_object_get(container, "devices"))
                (void)json_object_set_new(container, "devices", json_array());
        (void)json_array_append_new(json_object_get(container, "devices"),
                                    json_pack("{s:i,s:s}", "device", device, "uuid", uuid));
}

static json_t *allocation_json(const struct object_pod *pod, const char *node, const struct placement *placement,
                               const char (*uuids)[OBJECT_UUID])
{
        json_t *containers = json_object(), *root;
        _cleanup_(freep) char *text = NULL;

        for (size_t i = 0; i < pod->n_wants; i++) {
                const char *uuid = uuids[placement->device[i]];

                if (!pod->wants[i].set || pod->wants[i].set == i + 1)
                        (void)json_object_set_new(containers, pod->containers[i],
                                                  json_pack("{s:i,s:s,s:I,s:i}", "device", (int)placement->device[i],
                                                            "uuid", uuid, "mem_bytes", (json_int_t)pod->wants[i].memory,
                                                            "share_permille", (int)pod->wants[i].share));
                if (pod->has_swap)
                        (void)json_object_set_new(json_object_get(containers, pod->containers[i]), "swap", json_true());
                if (pod->wants[i].set)
                        add_device(json_object_get(containers, pod->containers[i]), (int)placement->device[i], uuid);
        }
        root = json_pack("{s:s,s:o}", "node", node, "containers", containers);
        text = root ? json_dumps(root, JSON_COMPACT) : NULL;
        json_decref(root);
        return text ? json_string(text) : NULL;
}

static void set_number(json_t *to, const char *name, int64_t value)
{
        char text[24];

        (void)snprintf(text, sizeof(text), "%" PRId64, value);
        (void)json_object_set_new(to, name, json_string(text));
}

json_t *object_annotations(const struct object_pod *pod, const char *node, const struct placement *placement,
                           const char (*uuids)[OBJECT_UUID], bytes unit, bytes device_total, int64_t now)
{
        json_t *annotations = json_object(), *ours = allocation_json(pod, node, placement, uuids);
        bytes sum = 0;

        if (!annotations || !ours || json_object_set_new(annotations, ANNOTATION_ALLOCATION, ours) < 0) {
                json_decref(annotations);
                return NULL;
        }
        for (size_t i = 0; i < pod->n_wants; i++)
                sum += pod->wants[i].memory;
        if (!pod->is_together)
                return annotations;
        set_number(annotations, ANNOTATION_ALIYUN_INDEX, placement->device[0]);
        set_number(annotations, ANNOTATION_ALIYUN_POD, (int64_t)(sum / unit));
        set_number(annotations, ANNOTATION_ALIYUN_DEVICE, (int64_t)(device_total / unit));
        set_number(annotations, ANNOTATION_ALIYUN_TIME, now);
        /* gpushare's scheduler says "false", and its plugin, which may decide otherwise, "true". Ours never does. */
        (void)json_object_set_new(annotations, ANNOTATION_ALIYUN_ASSIGNED, json_string("true"));
        return annotations;
}
