/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocate: ids in; variables, mounts, device nodes and CDI names out. Kubelet does not name the pod, so the grant is
 * put into annotations of the container, which no pod can write, and into variables, which only inform.
 */
#include "kube/plugin/plugin_inside.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/client/names.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        PAIRS = 16,
        NODES = 4 + PLUGIN_DEVICES,
        TEXT = 128,
        CONTAINERS_MAX = 64, /* of one Allocate; kubelet sends one */
};

struct pair {
        Plugin__Pair pair;
        char key[48], value[PLUGIN_DEVICES * (PLUGIN_UUID + 16)];
};

/* The parts of the answer for one container; the message points into them. */
struct grant {
        Plugin__ContainerAnswer answer;
        struct pair pairs[PAIRS];
        Plugin__Pair *envs[PAIRS], *annotations[PAIRS];
        size_t n_pairs;
        Plugin__Mount mounts[PLUGIN_MOUNTS], *mount_list[PLUGIN_MOUNTS];
        struct plugin_mount leased[PLUGIN_MOUNTS];
        Plugin__Node nodes[NODES], *node_list[NODES];
        char node_paths[NODES][TEXT];
        Plugin__CdiDevice names[PLUGIN_DEVICES], *name_list[PLUGIN_DEVICES];
        char name_texts[PLUGIN_DEVICES][TEXT];
};

static int compare_keys(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

int plugin_count_ids(const struct plugin_resource *resource, const struct plugin_node *node, char **ids, size_t n_ids,
                     struct plugin_amount amounts[static PLUGIN_DEVICES], struct err *err)
{
        _cleanup_(freep) uint64_t *keys = calloc(n_ids + 1, sizeof(*keys));
        struct plugin_amount counted[PLUGIN_DEVICES] = { 0 };
        unsigned int number;
        size_t device;

        if (!keys)
                return err_set(err, -ENOMEM, "%s", resource->name);
        if (!node->is_daemon_up)
                return err_say(err, -EAGAIN,
                               "the daemon of this node does not answer: nothing can start on its GPUs now");
        for (size_t i = 0; i < n_ids; i++) {
                if (plugin_id_parse(resource, node, ids[i], &device, &number) < 0)
                        return err_say(err, -ENOENT, "%s: '%.64s' is nothing that this node has", resource->name,
                                       ids[i]);
                if (!node->devices[device].is_healthy)
                        return err_say(err, -EBUSY, "GPU %u (%s) is lost: drain the node", node->devices[device].index,
                                       node->devices[device].uuid);
                keys[i] = (uint64_t)device << 32 | number;
                counted[device].n++;
        }
        qsort(keys, n_ids, sizeof(*keys), compare_keys);
        for (size_t i = 1; i < n_ids; i++)
                if (keys[i] == keys[i - 1])
                        return err_say(err, -EINVAL, "%s: the same id twice", resource->name);
        memcpy(amounts, counted, sizeof(counted));
        return 0;
}

/* ---- parts of an answer ---- */

static struct pair *pair(struct grant *grant, const char *key, const char *format, va_list arguments)
{
        struct pair *pair = &grant->pairs[grant->n_pairs++];

        plugin__pair__init(&pair->pair);
        (void)snprintf(pair->key, sizeof(pair->key), "%s", key);
        (void)vsnprintf(pair->value, sizeof(pair->value), format, arguments);
        pair->pair.key = pair->key;
        pair->pair.value = pair->value;
        return pair;
}

__attribute__((format(printf, 3, 4))) static void env(struct grant *grant, const char *key, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        grant->envs[grant->answer.n_envs++] = &pair(grant, key, format, arguments)->pair;
        va_end(arguments);
}

__attribute__((format(printf, 3, 4))) static void annotate(struct grant *grant, const char *key, const char *format,
                                                           ...)
{
        va_list arguments;

        va_start(arguments, format);
        grant->annotations[grant->answer.n_annotations++] = &pair(grant, key, format, arguments)->pair;
        va_end(arguments);
}

static void mount(struct grant *grant, const char *source, const char *target, bool is_read_only)
{
        Plugin__Mount *mount = &grant->mounts[grant->answer.n_mounts];

        plugin__mount__init(mount);
        mount->container_path = (char *)(uintptr_t)target; /* packed, not kept */
        mount->host_path = (char *)(uintptr_t)source;
        mount->read_only = is_read_only;
        grant->mount_list[grant->answer.n_mounts++] = mount;
}

__attribute__((format(printf, 2, 3))) static void node_at(struct grant *grant, const char *format, ...)
{
        static char may[] = "rw";
        size_t n = grant->answer.n_devices++;
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(grant->node_paths[n], TEXT, format, arguments);
        va_end(arguments);
        plugin__node__init(&grant->nodes[n]);
        grant->nodes[n].container_path = grant->nodes[n].host_path = grant->node_paths[n];
        grant->nodes[n].permissions = may;
        grant->node_list[n] = &grant->nodes[n];
}

static void cdi_name(struct grant *grant, const char *name)
{
        size_t n = grant->answer.n_cdi_devices++;

        (void)snprintf(grant->name_texts[n], TEXT, PLUGIN_CDI_KIND "=%s", name);
        plugin__cdi_device__init(&grant->names[n]);
        grant->names[n].name = grant->name_texts[n];
        grant->name_list[n] = &grant->names[n];
}

/* ---- grants ---- */

static bool is_chosen(const struct plugin_amount *amounts, size_t device)
{
        return !amounts || amounts[device].n;
}

/* The devices themselves. amounts NULL: all of them; the gate then allows one. */
static void grant_devices(struct grant *grant, const struct plugin_node *node, const struct plugin_ways *ways,
                          const struct plugin_amount *amounts)
{
        char list[PLUGIN_DEVICES * (PLUGIN_UUID + 16)] = "";
        size_t n = 0;

        for (size_t i = 0; i < node->n_devices; i++) {
                if (!is_chosen(amounts, i))
                        continue;
                n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? "," : "", node->devices[i].uuid);
                if (ways->has_cdi)
                        cdi_name(grant, node->devices[i].uuid);
                if (ways->has_nodes)
                        node_at(grant, "/dev/nvidia%u", node->devices[i].index);
        }
        env(grant, "NVIDIA_VISIBLE_DEVICES", "%s", list);
        if (ways->has_nodes) {
                node_at(grant, "/dev/nvidiactl");
                node_at(grant, "/dev/nvidia-uvm");
        }
        if (ways->has_annotation) {
                char names[sizeof(list) + PLUGIN_DEVICES * sizeof(PLUGIN_CDI_KIND)] = "";

                n = 0;
                for (size_t i = 0; i < node->n_devices; i++)
                        if (is_chosen(amounts, i))
                                n += (size_t)snprintf(names + n, sizeof(names) - n, "%s" PLUGIN_CDI_KIND "=%s",
                                                      n ? "," : "", node->devices[i].uuid);
                annotate(grant, "cdi.k8s.io/sublet_gpu", "%s", names);
        }
}

/* The device that holds all of the container's memory; NULL: there are several. */
static const struct plugin_device *only_device(const struct plugin_node *node, const struct plugin_amount *amounts)
{
        const struct plugin_device *only = NULL;

        for (size_t i = 0; i < node->n_devices; i++) {
                if (!amounts[i].n)
                        continue;
                if (only)
                        return NULL;
                only = &node->devices[i];
        }
        return only;
}

/* The quota is kept by the preload library. /etc/ld.so.preload is among the mounts, so no variable is needed. */
static int grant_lease(struct grant *grant, const struct plugin_ways *ways, const struct plugin_lease_request *asked,
                       struct err *err)
{
        int r = ways->lease(ways->context, asked, grant->leased, err);

        for (int i = 0; i < r; i++)
                mount(grant, grant->leased[i].source, grant->leased[i].target, grant->leased[i].is_read_only);
        return r < 0 ? r : 0;
}

static int grant_memory(struct grant *grant, const struct plugin_resource *resource, const struct plugin_node *node,
                        const struct plugin_ways *ways, const struct plugin_amount *amounts,
                        const Plugin__ContainerIds *asked, struct err *err)
{
        const struct plugin_device *device = only_device(node, amounts);
        size_t n = asked->n_ids;
        unsigned long long memory = (unsigned long long)n * resource->unit;

        if (!ways->is_placed && !device)
                return err_say(err, -EBUSY, "no GPU of this node has %zu of %s free (what is free is on several)", n,
                               resource->name);
        env(grant, "SUBLET_MEM", "%llu", memory);
        annotate(grant, ANNOTATION_CONTAINER_MEMORY, "%llu", memory);
        if (!ways->is_placed) {
                env(grant, "SUBLET_DEVICE", "%s", device->uuid);
                annotate(grant, ANNOTATION_CONTAINER_DEVICE, "%s", device->uuid);
        }
        if (resource->is_aliyun)
                env(grant, VARIABLE_ALIYUN_CONTAINER, "%zu", n);
        if (resource->is_aliyun && !ways->is_placed) {
                env(grant, ANNOTATION_ALIYUN_INDEX, "%u", device->index);
                env(grant, ANNOTATION_ALIYUN_DEVICE, "%u", (unsigned int)(device->memory / resource->unit));
        }
        grant_devices(grant, node, ways, ways->is_placed ? NULL : amounts);
        if (!ways->lease || !device)
                return 0;
        return grant_lease(grant, ways, &(struct plugin_lease_request){ resource->name, asked->ids, n, memory, device },
                           err);
}

static int grant_seats(struct grant *grant, const struct plugin_resource *resource, const struct plugin_node *node,
                       const struct plugin_ways *ways, const struct plugin_amount *amounts, size_t n_ids,
                       struct err *err)
{
        const struct plugin_device *device = only_device(node, amounts);

        if (resource->is_single && n_ids > 1)
                return err_say(err, -EBUSY, "%zu of %s: a container has one at most here (failRequestsGreaterThanOne)",
                               n_ids, resource->name);
        grant_devices(grant, node, ways, amounts);
        if (resource->kind == PLUGIN_SEATS)
                return 0;
        if (!device) /* one control daemon would have to serve both */
                return err_say(err, -EBUSY, "a container under MPS is on one GPU: ask for %s on one", resource->name);
        env(grant, "CUDA_MPS_PIPE_DIRECTORY", "%s", ways->mps);
        env(grant, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "%u", 100 / resource->seats);
        env(grant, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=%lluM",
            (unsigned long long)(device->memory / resource->seats / MIB));
        mount(grant, ways->mps, ways->mps, false);
        return 0;
}

/* Of the device with its memory; which percents these are means nothing. A sum of several devices, which only the
 * extender gives, may be more than one has: then the container is told nothing. */
static int grant_share(struct grant *grant, const struct plugin_resource *resource, const struct plugin_node *node,
                       const struct plugin_ways *ways, const Plugin__ContainerIds *asked, struct err *err)
{
        size_t most = 100 * (ways->is_placed ? node->n_devices : 1);

        if (asked->n_ids > most)
                return err_say(err, -EBUSY, "%s: %s has %zu percent", resource->name,
                               ways->is_placed ? "this node" : "a GPU", most);
        if (asked->n_ids > 100)
                return 0;
        env(grant, "SUBLET_SHARE", "%zu%%", asked->n_ids);
        annotate(grant, ANNOTATION_CONTAINER_SHARE, "%zu", asked->n_ids * 10);
        return 0;
}

static int grant_container(struct grant *grant, const struct plugin_resource *resource, const struct plugin_node *node,
                           const struct plugin_ways *ways, const Plugin__ContainerIds *asked, struct err *err)
{
        struct plugin_amount amounts[PLUGIN_DEVICES];
        int r = plugin_count_ids(resource, node, asked->ids, asked->n_ids, amounts, err);

        plugin__container_answer__init(&grant->answer);
        if (r < 0)
                return r;
        if (asked->n_ids == 0)
                return err_say(err, -EINVAL, "%s: no ids were asked for", resource->name);
        switch (resource->kind) {
        case PLUGIN_MEMORY:
                return grant_memory(grant, resource, node, ways, amounts, asked, err);
        case PLUGIN_SHARE:
                return grant_share(grant, resource, node, ways, asked, err);
        case PLUGIN_SEATS:
        case PLUGIN_MPS:
                return grant_seats(grant, resource, node, ways, amounts, asked->n_ids, err);
        case PLUGIN_COUNT:
                break;
        }
        return err_say(err, -EINVAL, "%s is only counted: ask for " NAME_MEMORY, resource->name);
}

static void point(struct grant *grant)
{
        grant->answer.envs = grant->envs;
        grant->answer.annotations = grant->annotations;
        grant->answer.mounts = grant->mount_list;
        grant->answer.devices = grant->node_list;
        grant->answer.cdi_devices = grant->name_list;
}

int plugin_allocate(const struct plugin_resource *resource, const struct plugin_node *node,
                    const struct plugin_ways *ways, const struct grpc_message *request, struct grpc_message *ret,
                    struct err *err)
{
        _cleanup_(allocate_freep) Plugin__AllocateRequest *asked = NULL;
        _cleanup_(freep) struct grant *grants = NULL;
        _cleanup_(freep) Plugin__ContainerAnswer **list = NULL;
        Plugin__AllocateAnswer message = PLUGIN__ALLOCATE_ANSWER__INIT;
        int r;

        asked = plugin__allocate_request__unpack(NULL, request->size, request->data);
        if (!asked || asked->n_containers > CONTAINERS_MAX)
                return err_say(err, -EINVAL, "Allocate: malformed request");
        grants = calloc(asked->n_containers + 1, sizeof(*grants));
        list = calloc(asked->n_containers + 1, sizeof(Plugin__ContainerAnswer *));
        if (!grants || !list)
                return err_set(err, -ENOMEM, "Allocate");
        for (size_t i = 0; i < asked->n_containers; i++) {
                r = grant_container(&grants[i], resource, node, ways, asked->containers[i], err);
                if (r < 0)
                        return r;
                point(&grants[i]);
                list[i] = &grants[i].answer;
        }
        message.containers = list;
        message.n_containers = asked->n_containers;
        return grpc_message_pack(&message.base, ret);
}
