/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/plugin/allocations.h"

#include "base/cleanup.h"
#include "kube/client/names.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What one container has: the sum of its rows in the checkpoint; then, of each of its devices. */
struct container_allocation {
        const char *pod, *container;
        bytes memory;
        unsigned int share; /* permille; 0: not asked for */
        const struct plugin_device *devices[PLUGIN_DEVICES];
        size_t n_devices;
        bool is_sound, has_swap;
};

struct work {
        const struct allocations_view *view;
        struct container_allocation *list;
        size_t n;
        struct allocations said;
};

__attribute__((format(printf, 3, 4))) static void note(struct work *work, const struct container_allocation *it,
                                                       const char *format, ...)
{
        char text[ALLOCATIONS_WHY / 2];
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        (void)snprintf(work->said.why, sizeof(work->said.why), "pod %.40s, container %.63s: %s", it->pod, it->container,
                       text);
}

static struct container_allocation *allocation_of(struct work *work, const struct checkpoint_row *row)
{
        for (size_t i = 0; i < work->n; i++)
                if (!strcmp(work->list[i].pod, row->pod) && !strcmp(work->list[i].container, row->container))
                        return &work->list[i];
        work->list[work->n] =
                (struct container_allocation){ .pod = row->pod, .container = row->container, .is_sound = true };
        return &work->list[work->n++];
}

static const struct plugin_resource *resource_of(const struct allocations_view *view, const char *name)
{
        for (size_t i = 0; i < view->n_resources; i++)
                if (!strcmp(view->resources[i].name, name))
                        return &view->resources[i];
        return NULL;
}

/* Ids of memory must be of this node, and of one device unless the extender names it. */
static void add_memory(struct work *work, const struct plugin_resource *resource, const struct checkpoint_row *row,
                       struct container_allocation *it)
{
        const struct plugin_device *device = NULL;
        unsigned int number;
        size_t at;

        for (size_t i = 0; i < row->n_ids; i++) {
                if (plugin_id_parse(resource, work->view->node, row->ids[i], &at, &number) < 0) {
                        it->is_sound = false;
                        note(work, it, "kubelet has %.63s, which this node has not", row->ids[i]);
                        return;
                }
                if (!work->view->is_placed && device && device != &work->view->node->devices[at]) {
                        it->is_sound = false;
                        note(work, it, "its %s is on several GPUs", resource->name);
                        return;
                }
                device = &work->view->node->devices[at];
        }
        it->memory += row->n_ids * resource->unit;
        it->devices[0] = device;
        it->n_devices = 1;
}

static void add_row(struct work *work, const struct checkpoint_row *row)
{
        const struct plugin_resource *resource = resource_of(work->view, row->resource);

        if (!resource || !row->n_ids)
                return;
        if (resource->kind == PLUGIN_MEMORY)
                add_memory(work, resource, row, allocation_of(work, row));
        else if (resource->kind == PLUGIN_SHARE)
                allocation_of(work, row)->share =
                        row->n_ids < 100 * PLUGIN_DEVICES ? (unsigned int)row->n_ids * 10 : 1000 * PLUGIN_DEVICES;
}

/* By UUID where one is known: indices shift when a device dies. */
static const struct plugin_device *device_of(const struct plugin_node *node, const char *uuid, json_int_t index)
{
        for (size_t i = 0; i < node->n_devices; i++)
                if (uuid && *uuid ? !strcmp(node->devices[i].uuid, uuid) : node->devices[i].index == index)
                        return &node->devices[i];
        return NULL;
}

/* false: it is none of this node, or a second time the same. */
static bool add_device(struct work *work, const json_t *named, struct container_allocation *it)
{
        const json_t *index = json_object_get(named, "device");
        const struct plugin_device *device =
                json_is_integer(index) ? device_of(work->view->node, json_string_value(json_object_get(named, "uuid")),
                                                   json_integer_value(index)) :
                                         NULL;

        for (size_t i = 0; i < it->n_devices; i++)
                if (it->devices[i] == device)
                        return false;
        if (!device || it->n_devices == PLUGIN_DEVICES)
                return false;
        it->devices[it->n_devices++] = device;
        return true;
}

/* The devices that the annotation names: all of them, or none. */
static void read_devices(struct work *work, const struct pods_pod *pod, const json_t *given,
                         struct container_allocation *it)
{
        const json_t *list = json_object_get(given, "devices"), *one;
        bool is_whole = true;
        size_t i;

        it->n_devices = 0;
        if (list)
                json_array_foreach (list, i, one)
                        is_whole &= add_device(work, one, it);
        else if (given)
                (void)add_device(work, given, it);
        else if (pod->index >= 0 && (it->devices[0] = device_of(work->view->node, NULL, pod->index)) != NULL)
                it->n_devices = 1;
        if (!is_whole)
                it->n_devices = 0;
}

/* Takes the devices, and the smaller amounts, from the pod's annotation (A1, A2). */
static void apply_annotation(struct work *work, const struct pods_pod *pod, struct container_allocation *it)
{
        const json_t *given = pod ? json_object_get(pod->containers, it->container) : NULL;
        json_int_t memory = json_integer_value(json_object_get(given, "mem_bytes")),
                   share = json_integer_value(json_object_get(given, "share_permille"));

        if (!pod) { /* ended, which kubelet notices at its next allocation; or not listed yet */
                it->is_sound = false;
                return;
        }
        read_devices(work, pod, given, it);
        if (!it->n_devices) {
                it->is_sound = false;
                note(work, it, "no annotation names a GPU of this node for it");
                return;
        }
        it->memory /= it->n_devices;
        it->share = it->share && it->share < it->n_devices ? 1 : it->share / (unsigned int)it->n_devices;
        if (memory > 0 && (bytes)memory != it->memory)
                note(work, it, "the extender says %lld bytes, kubelet %llu: the smaller counts", (long long)memory,
                     (unsigned long long)it->memory);
        if (memory > 0 && (bytes)memory < it->memory)
                it->memory = (bytes)memory;
        if (share > 0 && share < it->share)
                it->share = (unsigned int)share;
        it->has_swap = json_is_true(json_object_get(given, "swap"));
}

/* As the daemon takes it: one wrong word would cost all pods their rows. */
static bool is_name(const char *text)
{
        size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

        return n && n < 64 && !text[n] && !strchr("._-", text[0]);
}

/* A row for each of its devices. */
static int emit(const struct work *work, json_t *list, const struct pods_pod *pod,
                const struct container_allocation *it)
{
        int r = 0;

        for (size_t i = 0; i < it->n_devices; i++) {
                json_t *row =
                        json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:i}", "pod", it->pod, "namespace",
                                  pod ? pod->namespace : "", "name", pod ? pod->name : "", "container", it->container,
                                  "uuid", it->devices[i]->uuid, "mem_bytes", (json_int_t)it->memory, "share_permille",
                                  (int)(it->share < 1000 ? it->share : 1000));

                if (work->view->is_placed) /* A4 */
                        (void)json_object_set_new(row, "swap", json_string(it->has_swap ? "true" : "false"));
                if (pod && pod->group)
                        (void)json_object_set_new(row, "group", json_string(pod->group));
                r |= json_array_append_new(list, row);
        }
        return r;
}

int allocations_make(const struct allocations_view *view, struct allocations *ret)
{
        _cleanup_(freep) struct container_allocation *list = calloc(view->checkpoint->n_rows + 1, sizeof(*list));
        struct work work = { .view = view, .list = list };
        json_t *rows = json_array();
        int r = list && rows ? 0 : -ENOMEM;

        for (size_t i = 0; r == 0 && i < view->checkpoint->n_rows; i++)
                add_row(&work, &view->checkpoint->rows[i]);
        for (size_t i = 0; r == 0 && i < work.n; i++) {
                const struct pods_pod *pod = view->pods ? pods_find(view->pods, list[i].pod) : NULL;

                if (list[i].memory && list[i].is_sound && view->is_placed)
                        apply_annotation(&work, pod, &list[i]);
                if (pod && pod->group && !is_name(pod->group) && list[i].is_sound) {
                        list[i].is_sound = false;
                        note(&work, &list[i],
                             ANNOTATION_GROUP " is no name of up to 63 letters, digits, '.', '_', '-'");
                }
                if (list[i].memory && list[i].is_sound && emit(&work, rows, pod, &list[i]) < 0)
                        r = -ENOMEM;
                work.said.n += list[i].memory && list[i].is_sound;
                work.said.n_left_out += !list[i].is_sound;
        }
        work.said.table = r == 0 ? json_pack("{s:O}", "allocations", rows) : NULL;
        json_decref(rows);
        if (!work.said.table)
                return -ENOMEM;
        *ret = work.said;
        return 0;
}
