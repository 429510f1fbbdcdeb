/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/object.h"

#include "base/cleanup.h"
#include "kube/client/names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const json_t *at(const json_t *json, const char *a, const char *b)
{
        return json_object_get(json_object_get(json, a), b);
}

/* false: absent, empty, or too long. */
static bool text_of(const json_t *json, char *to, size_t size)
{
        const char *text = json_string_value(json);
        size_t n = text ? strlen(text) : 0;

        if (!n || n >= size)
                return false;
        memcpy(to, text, n + 1);
        return true;
}

/* ---- quantities -------------------------------------------------------------------------------- */

static uint64_t suffix_of(const char *text)
{
        static const struct {
                const char *text;
                uint64_t factor;
        } rows[] = { { "", 1 }, { "k", 1000 }, { "M", 1000000 }, { "Ki", 1024 }, { "Mi", 1 << 20 } };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (!strcmp(text, rows[i].text))
                        return rows[i].factor;
        return 0;
}

int object_quantity(const json_t *json, uint64_t *ret)
{
        const char *text = json_string_value(json);
        uint64_t value = 0, factor = 1;
        size_t n = 0;

        if (json_is_integer(json)) {
                if (json_integer_value(json) < 0)
                        return -ERANGE;
                value = (uint64_t)json_integer_value(json);
        } else {
                if (!text || !(n = strspn(text, "0123456789")))
                        return -EINVAL;
                for (size_t i = 0; i < n && value <= OBJECT_UNITS_MAX; i++)
                        value = value * 10 + (uint64_t)(text[i] - '0');
                factor = suffix_of(text + n);
        }
        if (!factor)
                return -EINVAL;
        if (value > OBJECT_UNITS_MAX / factor)
                return -ERANGE;
        *ret = value * factor;
        return 0;
}

/* ---- pods -------------------------------------------------------------------------------------- */

/* Of extended resources the limits count. 1: it asks for some; 0: it does not; -EINVAL. */
static int want_of(const json_t *container, const char *name, uint64_t *ret)
{
        const json_t *json = json_object_get(at(container, "resources", "limits"), name);

        if (!json)
                json = json_object_get(at(container, "resources", "requests"), name);
        if (!json)
                return 0;
        return object_quantity(json, ret) < 0 ? -EINVAL : *ret > 0;
}

static bool is_zero(const json_t *container, const char *name)
{
        uint64_t value = 1;
        bool is_there = json_object_get(at(container, "resources", "limits"), name) ||
                        json_object_get(at(container, "resources", "requests"), name);

        return is_there && want_of(container, name, &value) == 0 && value == 0;
}

/* Why kubelet would never start the container, though nodes have the resource. What it asks for besides counts. */
static const char *never_starts(const json_t *container)
{
        uint64_t count;

        if (is_zero(container, NAME_MEMORY) || is_zero(container, NAME_ALIYUN_MEMORY))
                return "a container asks for 0 of GPU memory: leave the resource out, or ask for 1 at least";
        if (want_of(container, NAME_COUNT, &count) || want_of(container, NAME_ALIYUN_COUNT, &count))
                return "gpu-count is 2 to 16 devices, beside " NAME_MEMORY
                       " of each, of an ordinary container, where the "
                       "webhook is installed";
        return NULL;
}

/* On how many devices it is; 0: the annotation is none of ours. */
static unsigned int count_of(const json_t *counts, const json_t *container)
{
        const char *name = json_string_value(json_object_get(container, "name"));
        const json_t *count = name ? json_object_get(counts, name) : NULL;

        if (!count)
                return 1;
        return json_is_integer(count) && json_integer_value(count) > 0 && json_integer_value(count) <= PLACEMENT_WANTS ?
                       (unsigned int)json_integer_value(count) :
                       0;
}

/* As many wants as it has devices, each with an equal part. What cannot be divided counts as one, wherever it is. */
static const char *put_wants(const json_t *container, unsigned int count, uint64_t memory, uint64_t share, bytes unit,
                             struct object_pod *pod)
{
        const size_t first = pod->n_wants;
        const char *problem = NULL;

        if (!count)
                problem = "its annotation " ANNOTATION_COUNTS " is not one such as {\"main\":2}, of 1 to 16 devices";
        else if (memory % count || share % count)
                problem = "a container's GPU memory or share is no multiple of its number of devices";
        count = problem ? 1 : count;
        if (!problem && share / count > 100)
                return "a container asks for more than 100 % of a device's time";
        if (first + count > PLACEMENT_WANTS)
                return "containers ask for more than 16 devices in all";
        for (; pod->n_wants < first + count; pod->n_wants++) {
                if (!text_of(json_object_get(container, "name"), pod->containers[pod->n_wants], OBJECT_LABEL))
                        return "a container has no name";
                pod->wants[pod->n_wants] =
                        (struct placement_want){ .memory = memory / count * unit,
                                                 .share = (unsigned int)(share / count) * (PLACEMENT_WHOLE / 100),
                                                 .set = count > 1 ? (unsigned int)first + 1 : 0 };
        }
        return problem;
}

static const char *read_container(const json_t *container, const json_t *counts, bytes unit, struct object_pod *pod)
{
        uint64_t memory = 0, share = 0, aliyun = 0;
        unsigned int count = count_of(counts, container);
        const char *problem;
        int has_memory = want_of(container, NAME_MEMORY, &memory), has_share = want_of(container, NAME_SHARE, &share),
            has_aliyun = want_of(container, NAME_ALIYUN_MEMORY, &aliyun);

        if (has_memory < 0 || has_share < 0 || has_aliyun < 0)
                return "a GPU resource is not a whole number";
        if (has_memory && has_aliyun)
                return "a container asks in " NAME_MEMORY " and in " NAME_ALIYUN_MEMORY;
        if (!has_memory && !has_aliyun)
                return has_share ? "a container asks for " NAME_SHARE " without " NAME_MEMORY : never_starts(container);
        if (has_aliyun && count != 1)
                return "a container asks for several devices in " NAME_ALIYUN_MEMORY ": ask in " NAME_MEMORY;
        problem = put_wants(container, count, memory + aliyun, share, unit, pod);
        pod->is_together |= has_aliyun > 0;
        return problem ? problem : never_starts(container);
}

static const char *read_containers(const json_t *spec, const json_t *counts, bytes unit, struct object_pod *pod)
{
        const char *problem = NULL, *one;
        struct object_pod first = { 0 };
        const json_t *container;
        size_t i;

        json_array_foreach (json_object_get(spec, "containers"), i, container) {
                one = read_container(container, counts, unit, pod);
                problem = problem ? problem : one;
        }
        json_array_foreach (json_object_get(spec, "initContainers"), i, container)
                (void)read_container(container, NULL, unit, &first);
        for (i = 0; i < pod->n_wants; i++)
                if (pod->is_together && pod->wants[i].set)
                        problem = "containers ask in " NAME_ALIYUN_MEMORY " and for several devices: one or the other";
        if (!problem && first.n_wants)
                problem = "an init container asks for GPU memory: give it to an ordinary one";
        return problem;
}

static const char *read_pod_containers(const json_t *annotations, const json_t *spec, bytes unit,
                                       struct object_pod *pod)
{
        const char *text = json_string_value(json_object_get(annotations, ANNOTATION_COUNTS));
        json_t *counts = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
        const char *vocabulary = json_string_value(json_object_get(annotations, ANNOTATION_VOCABULARY)), *problem;

        pod->is_together = vocabulary && !strcmp(vocabulary, VOCABULARY_ALIYUN);
        problem = read_containers(spec, counts, unit, pod);
        if (text && !json_is_object(counts) && !problem)
                problem = "its annotation " ANNOTATION_COUNTS " is not one such as {\"main\":2}, of 1 to 16 devices";
        json_decref(counts);
        return problem;
}

/* The i-th want's part of our annotation: it is the k-th of its container, on several devices if it is in a set. */
static const json_t *device_of(const json_t *root, const struct object_pod *pod, size_t i)
{
        const json_t *container = at(root, "containers", pod->containers[i]),
                     *devices = json_object_get(container, "devices");
        size_t k = pod->wants[i].set ? i + 1 - pod->wants[i].set : 0;

        if (!pod->wants[i].set)
                return devices ? NULL : json_object_get(container, "device");
        return json_object_get(json_array_get(devices, k), "device");
}

/* Our annotation: a device for each want. */
static bool read_allocation(const char *text, struct object_pod *pod)
{
        json_t *root = json_loads(text, 0, NULL);
        bool is_whole = root != NULL;

        for (size_t i = 0; i < pod->n_wants && is_whole; i++) {
                const json_t *device = device_of(root, pod, i);

                is_whole = json_is_integer(device) && json_integer_value(device) >= 0 &&
                           json_integer_value(device) < PLACEMENT_DEVICES;
                pod->devices[i] = (unsigned char)json_integer_value(device);
        }
        if (is_whole && pod->n_wants)
                pod->has_swap = json_is_true(json_object_get(at(root, "containers", pod->containers[0]), "swap"));
        json_decref(root);
        return is_whole;
}

/* gpushare's annotation: one index for all wants. */
static bool read_index(const char *text, struct object_pod *pod)
{
        uint64_t index;

        if (number_parse(text, &index) < 0 || index >= PLACEMENT_DEVICES)
                return false;
        memset(pod->devices, (int)index, sizeof(pod->devices));
        return true;
}

static void read_placement(const json_t *annotations, struct object_pod *pod)
{
        const char *ours = json_string_value(json_object_get(annotations, ANNOTATION_ALLOCATION)),
                   *theirs = json_string_value(json_object_get(annotations, ANNOTATION_ALIYUN_INDEX));

        pod->is_placed =
                pod->n_wants && ((ours && read_allocation(ours, pod)) || (!ours && theirs && read_index(theirs, pod)));
}

/* As DaemonSets do: every taint, or that of a cordoned node. An effect that is named is NoSchedule's here, too. */
static bool does_tolerate_cordon(const json_t *spec)
{
        const json_t *toleration;
        size_t i;

        json_array_foreach (json_object_get(spec, "tolerations"), i, toleration) {
                const char *key = json_string_value(json_object_get(toleration, "key")),
                           *effect = json_string_value(json_object_get(toleration, "effect"));

                if ((!key || !*key || !strcmp(key, "node.kubernetes.io/unschedulable")) &&
                    (!effect || !*effect || !strcmp(effect, "NoSchedule")))
                        return true;
        }
        return false;
}

static const char *read_job(const json_t *annotations, struct object_pod *pod)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
        const json_t *pods = json_object_get(annotations, ANNOTATION_JOB_PODS);
        uint64_t n;

        if (!pods || !pod->n_wants)
                return NULL;
        if (!text_of(json_object_get(annotations, ANNOTATION_JOB), pod->job, sizeof(pod->job)) ||
            pod->job[strspn(pod->job, letters)])
                return ANNOTATION_JOB_PODS " needs " ANNOTATION_JOB ", a name of letters, digits, '-', '_' and '.'";
        if (object_quantity(pods, &n) < 0 || !n || n > OBJECT_JOB_PODS)
                return "its annotation " ANNOTATION_JOB_PODS " is not a number of pods from 1 to 256";
        pod->job_pods = (unsigned int)n;
        return NULL;
}

static const char *read_swap(const json_t *annotations, struct object_pod *pod)
{
        const char *text = json_string_value(json_object_get(annotations, ANNOTATION_SWAP));

        pod->has_swap = text && !strcmp(text, "true");
        if (text && !pod->has_swap && strcmp(text, "false") != 0)
                return "its annotation " ANNOTATION_SWAP " is neither \"true\" nor \"false\"";
        if (pod->has_swap && json_object_get(annotations, ANNOTATION_JOB))
                return "a pod of a job cannot have " ANNOTATION_SWAP ": its tenants use each other's memory";
        return NULL;
}

int object_pod_read(const json_t *json, bytes unit, struct object_pod *ret)
{
        const json_t *metadata = json_object_get(json, "metadata"), *spec = json_object_get(json, "spec");
        const char *phase = json_string_value(at(json, "status", "phase"));
        json_int_t priority = json_integer_value(json_object_get(spec, "priority"));
        struct object_pod pod = { 0 };
        const char *wrong;

        if (!text_of(json_object_get(metadata, "name"), pod.name, sizeof(pod.name)) ||
            !text_of(json_object_get(metadata, "uid"), pod.uid, sizeof(pod.uid)))
                return -EINVAL;
        if (!text_of(json_object_get(metadata, "namespace"), pod.namespace, sizeof(pod.namespace)))
                (void)snprintf(pod.namespace, sizeof(pod.namespace), "default");
        (void)text_of(json_object_get(spec, "nodeName"), pod.node, sizeof(pod.node));
        pod.priority = priority > INT32_MAX ? INT32_MAX : priority < INT32_MIN ? INT32_MIN : (int)priority;
        pod.has_succeeded = phase && !strcmp(phase, "Succeeded");
        pod.is_over = pod.has_succeeded || (phase && !strcmp(phase, "Failed"));
        pod.tolerates_cordon = does_tolerate_cordon(spec);
        pod.is_leaving = json_is_string(json_object_get(metadata, "deletionTimestamp"));
        (void)text_of(json_object_get(metadata, "creationTimestamp"), pod.created, sizeof(pod.created));
        pod.problem = read_pod_containers(json_object_get(metadata, "annotations"), spec, unit, &pod);
        pod.problem = pod.problem ? pod.problem : read_job(json_object_get(metadata, "annotations"), &pod);
        wrong = read_swap(json_object_get(metadata, "annotations"), &pod);
        pod.problem = pod.problem || !pod.n_wants ? pod.problem : wrong;
        read_placement(json_object_get(metadata, "annotations"), &pod);
        *ret = pod;
        return 0;
}

/* ---- nodes ------------------------------------------------------------------------------------- */

/* Indices of other devices; what is none is left out. */
static uint32_t read_links(const json_t *list)
{
        const json_t *one;
        uint32_t links = 0;
        size_t i;

        json_array_foreach (list, i, one)
                if (json_is_integer(one) && json_integer_value(one) >= 0 && json_integer_value(one) < PLACEMENT_DEVICES)
                        links |= UINT32_C(1) << json_integer_value(one);
        return links;
}

static const char *read_devices(const char *text, bytes unit, struct object_node *node)
{
        json_t *root = json_loads(text, 0, NULL);
        const json_t *device;
        size_t i;

        json_array_foreach (root, i, device) {
                json_int_t index = json_integer_value(json_object_get(device, "index")),
                           memory = json_integer_value(json_object_get(device, "mem_bytes")),
                           numa = json_integer_value(json_object_get(device, "numa")),
                           swap = json_integer_value(json_object_get(device, "swap_bytes"));

                if (index < 0 || index >= PLACEMENT_DEVICES || memory < 0)
                        continue;
                while (node->n_devices <= (size_t)index) /* gaps become devices that are never given out */
                        node->devices[node->n_devices++] = (struct placement_device){ .is_unhealthy = true };
                node->devices[index] = (struct placement_device){
                        .total = (bytes)memory / unit * unit,
                        .numa = numa < 0 ? 0 : (unsigned int)numa,
                        .nvlink = read_links(json_object_get(device, "nvlink")),
                        .is_unhealthy = json_is_false(json_object_get(device, "healthy")),
                };
                if (swap > 0)
                        node->swap = (bytes)swap; /* the node's, and so the same in each row */
                (void)text_of(json_object_get(device, "uuid"), node->uuids[index], OBJECT_UUID);
        }
        json_decref(root);
        return node->n_devices ? NULL : "its annotation " ANNOTATION_DEVICES " is not a list of devices";
}

static const char *divide(const json_t *status, const char *memory_name, const char *count_name, bytes unit,
                          struct object_node *node)
{
        uint64_t memory = 0, count = 0;

        if (object_quantity(json_object_get(status, memory_name), &memory) < 0 || !memory)
                return NULL;
        if (object_quantity(json_object_get(status, count_name), &count) < 0 || !count || count > PLACEMENT_DEVICES)
                return "it does not say how many devices its GPU memory is on";
        for (size_t i = 0; i < count; i++)
                node->devices[i] = (struct placement_device){ .total = memory / count * unit };
        node->n_devices = count;
        return NULL;
}

int object_node_read(const json_t *json, bytes unit, struct object_node *ret)
{
        const json_t *metadata = json_object_get(json, "metadata"), *status = at(json, "status", "allocatable");
        const char *devices = json_string_value(at(metadata, "annotations", ANNOTATION_DEVICES));
        struct object_node node = { 0 };

        if (!text_of(json_object_get(metadata, "name"), node.name, sizeof(node.name)))
                return -EINVAL;
        node.is_cordoned = json_is_true(at(json, "spec", "unschedulable"));
        if (devices)
                node.problem = read_devices(devices, unit, &node);
        else
                node.problem = divide(status, NAME_MEMORY, NAME_COUNT, unit, &node);
        if (!devices && !node.problem && !node.n_devices)
                node.problem = divide(status, NAME_ALIYUN_MEMORY, NAME_ALIYUN_COUNT, unit, &node);
        *ret = node;
        return 0;
}
