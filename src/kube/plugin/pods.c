/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/plugin/pods.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "kube/client/names.h"
#include "kube/plugin/plugin.h"
#include "kube/plugin/resize/resize.h"

#include <errno.h>
#include <string.h>

static const char *text_at(const json_t *json, const char *key)
{
        return json_string_value(json_object_get(json, key));
}

static void pod_free(struct pods_pod *pod)
{
        free(pod->uid);
        free(pod->namespace);
        free(pod->name);
        free(pod->group);
        json_decref(pod->containers);
        json_decref(pod->asked);
        free(pod);
}

static struct pods_pod **link_of(struct pods *pods, const char *uid)
{
        struct pods_pod **at = &pods->first;

        while (*at && strcmp((*at)->uid, uid) != 0)
                at = &(*at)->next;
        return at;
}

void pods_drop(struct pods *pods, const char *uid)
{
        struct pods_pod **at = link_of(pods, uid), *pod = *at;

        if (!pod)
                return;
        *at = pod->next;
        pod_free(pod);
}

const struct pods_pod *pods_find(const struct pods *pods, const char *uid)
{
        const struct pods_pod *pod = pods->first;

        while (pod && strcmp(pod->uid, uid) != 0)
                pod = pod->next;
        return pod;
}

void pods_begin(struct pods *pods)
{
        pods->round++;
}

void pods_end(struct pods *pods)
{
        for (struct pods_pod **at = &pods->first, *pod; (pod = *at) != NULL;) {
                if (pod->round == pods->round) {
                        at = &pod->next;
                        continue;
                }
                *at = pod->next;
                pod_free(pod);
        }
}

void pods_done(struct pods *pods)
{
        pods->round++;
        pods_end(pods);
}

/* The annotation counts only on the node it names: a failed binding may have left one for another node. */
static json_t *read_allocation(const char *text, const char *node)
{
        json_t *root = text ? json_loads(text, 0, NULL) : NULL, *containers = json_object_get(root, "containers");
        const char *named = text_at(root, "node");

        containers = named && !strcmp(named, node) && json_is_object(containers) ? json_incref(containers) : NULL;
        json_decref(root);
        return containers;
}

static int read_index(const char *text)
{
        uint64_t index;

        return text && number_parse(text, &index) == 0 && index < PLUGIN_DEVICES ? (int)index : -1;
}

static struct pods_pod *pod_new(const json_t *metadata, const char *uid, const char *node)
{
        const json_t *annotations = json_object_get(metadata, "annotations");
        const char *namespace = text_at(metadata, "namespace"), *name = text_at(metadata, "name"),
                   *group = text_at(annotations, ANNOTATION_GROUP);
        struct pods_pod *pod = calloc(1, sizeof(*pod));

        if (!pod)
                return NULL;
        pod->uid = strdup(uid);
        pod->namespace = strdup(namespace ? namespace : "");
        pod->name = strdup(name ? name : "");
        pod->group = group ? strdup(group) : NULL;
        pod->containers = read_allocation(text_at(annotations, ANNOTATION_ALLOCATION), node);
        pod->asked = resize_read(annotations);
        pod->index = read_index(text_at(annotations, ANNOTATION_ALIYUN_INDEX));
        if (pod->uid && pod->namespace && pod->name && !pod->group == !group)
                return pod;
        pod_free(pod);
        return NULL;
}

int pods_put(struct pods *pods, const char *node, const json_t *json)
{
        const json_t *metadata = json_object_get(json, "metadata");
        const char *uid = text_at(metadata, "uid"), *phase = text_at(json_object_get(json, "status"), "phase"),
                   *on = text_at(json_object_get(json, "spec"), "nodeName");
        struct pods_pod *pod, **at;

        if (!uid || !*uid)
                return -EINVAL;
        if (!on || strcmp(on, node) != 0 || (phase && (!strcmp(phase, "Succeeded") || !strcmp(phase, "Failed")))) {
                pods_drop(pods, uid);
                return 0;
        }
        pod = pod_new(metadata, uid, node);
        if (!pod)
                return -ENOMEM;
        pods_drop(pods, uid);
        at = link_of(pods, uid);
        pod->round = pods->round;
        *at = pod;
        return 0;
}
