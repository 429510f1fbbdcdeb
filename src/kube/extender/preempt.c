/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pods would have to leave a node. The scheduler chooses victims by the sum of a node's memory, but a pod needs
 * one device. So its victims are kept, and pods of lower priority are added until one device has the room.
 */
#include "kube/extender/extend.h"

#include <string.h>

enum {
        VICTIMS = 256, /* of a node; a request that names more is cut off there */
};

struct victims {
        const char *uids[VICTIMS]; /* borrowed from the request or from the cluster */
        size_t n;
};

static void take_victims(const json_t *node, struct victims *victims)
{
        const json_t *pod;
        size_t i;

        json_array_foreach (json_object_get(node, "Pods"), i, pod) {
                const char *uid = json_string_value(json_object_get(pod, "UID"));

                if (!uid)
                        uid = json_string_value(json_object_get(json_object_get(pod, "metadata"), "uid"));
                if (uid && victims->n < VICTIMS)
                        victims->uids[victims->n++] = uid;
        }
}

static bool fits_without(const struct extend *extend, const struct cluster_node *node, const struct object_pod *pod,
                         const struct victims *victims)
{
        const struct placement_request request = extend_request(pod);
        struct placement_device devices[PLACEMENT_DEVICES];
        const struct placement_node view = cluster_view_without(node, victims->uids, victims->n, devices);
        struct placement placement;

        return !pod->problem && (!pod->n_wants || placement_pick(&view, &request, extend->policy, &extend->cluster.mix,
                                                                 &placement) == PLACEMENT_OK);
}

static bool is_victim(const struct victims *victims, const struct cluster_pod *pod)
{
        for (size_t i = 0; i < victims->n; i++)
                if (!strcmp(victims->uids[i], pod->uid))
                        return true;
        return false;
}

/* The pod of the lowest priority below this one's that is no victim yet; among equals, the one that holds most. One
 * whose place is only reserved is not there (jobs.h J7). */
static const struct cluster_pod *next_victim(const struct cluster_node *node, const struct object_pod *pod,
                                             const struct victims *victims)
{
        const struct cluster_pod *best = NULL;

        for (const struct cluster_pod *p = node->pods; p; p = p->next_here)
                if (p->priority < pod->priority && !p->is_reserved && !is_victim(victims, p) &&
                    (!best || p->priority < best->priority ||
                     (p->priority == best->priority && p->wants[0].memory > best->wants[0].memory)))
                        best = p;
        return best;
}

/* Adds victims until the pod fits on one device, then spares those of ours that turn out not to be needed. */
static bool find_victims(const struct extend *extend, const struct cluster_node *node, const struct object_pod *pod,
                         struct victims *victims)
{
        size_t given = victims->n;

        while (!fits_without(extend, node, pod, victims)) {
                const struct cluster_pod *one = next_victim(node, pod, victims);

                if (!one || victims->n == VICTIMS)
                        return false;
                victims->uids[victims->n++] = one->uid;
        }
        for (size_t i = given; i < victims->n;) {
                struct victims fewer = *victims;

                fewer.uids[i] = fewer.uids[--fewer.n];
                if (fits_without(extend, node, pod, &fewer))
                        *victims = fewer;
                else
                        i++;
        }
        return true;
}

static json_t *victims_json(const struct victims *victims, const json_t *given)
{
        json_t *pods = json_array();

        for (size_t i = 0; i < victims->n; i++)
                (void)json_array_append_new(pods, json_pack("{s:s}", "UID", victims->uids[i]));
        return json_pack("{s:o,s:I}", "Pods", pods, "NumPDBViolations",
                         json_integer_value(json_object_get(given, "NumPDBViolations")));
}

char *extend_preempt(struct extend *extend, const struct extender_args *args, size_t *ret_size)
{
        json_t *given = json_object_get(args->root, "NodeNameToMetaVictims"), *kept = json_object(), *one, *answer;
        const struct object_pod *pod = &args->pod;
        const char *name;
        char *text;

        if (!json_object_size(given))
                given = json_object_get(args->root, "NodeNameToVictims");
        json_object_foreach (given, name, one) {
                const struct cluster_node *node = cluster_node(&extend->cluster, name);
                struct victims victims = { 0 };

                take_victims(one, &victims);
                if (args->has_pod && !pod->job_pods &&
                    (!pod->n_wants || (node && find_victims(extend, node, pod, &victims))))
                        (void)json_object_set_new(kept, name, victims_json(&victims, one));
        }
        answer = json_pack("{s:o}", "NodeNameToMetaVictims", kept);
        text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
        json_decref(answer);
        *ret_size = text ? strlen(text) : 0;
        return text;
}
