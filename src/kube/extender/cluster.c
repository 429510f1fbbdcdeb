/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes are found by name and pods by UID, through a hash whose rare collisions are chained. After every change the
 * sums of a node are counted again from its pods: a node has tens of them, and a sum that is never adjusted cannot
 * drift (C1).
 */
#include "kube/extender/cluster.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

static uint64_t hash(const char *text)
{
        uint64_t h = 14695981039346656037u; /* FNV-1a */

        for (; *text; text++)
                h = (h ^ (unsigned char)*text) * 1099511628211u;
        return h;
}

/* ---- counting ---------------------------------------------------------------------------------- */

static void node_recount(struct cluster_node *node)
{
        struct placement_device devices[PLACEMENT_DEVICES];

        node->is_spread = cluster_view_without(node, NULL, 0, devices).is_spread;
        if (node->n_devices)
                memcpy(node->devices, devices, node->n_devices * sizeof(*devices));
        node->memo.shape = 0;
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static struct cluster_node *node_find(const struct cluster *cluster, const char *name)
{
        struct cluster_node *node = map_get(&cluster->nodes, hash(name));

        while (node && strcmp(node->name, name) != 0)
                node = node->next;
        return node;
}

static struct cluster_node *node_find_or_add(struct cluster *cluster, const char *name)
{
        struct cluster_node *node = node_find(cluster, name);
        uint64_t key = hash(name);

        if (node)
                return node;
        node = calloc(1, sizeof(*node) + strlen(name) + 1);
        if (!node || map_reserve(&cluster->nodes, 1) < 0) {
                free(node);
                return NULL;
        }
        memcpy(node->name, name, strlen(name) + 1);
        node->next = map_take(&cluster->nodes, key);
        (void)map_put(&cluster->nodes, key, node);
        cluster->n_nodes++;
        return node;
}

/* Unlinks it from its chain, whose first entry is in the map. */
static void node_remove(struct cluster *cluster, struct cluster_node *node)
{
        uint64_t key = hash(node->name);
        struct cluster_node *first = map_take(&cluster->nodes, key), **at = &first;

        while (*at != node)
                at = &(*at)->next;
        *at = node->next;
        if (first)
                (void)map_put(&cluster->nodes, key, first);
        cluster->n_nodes--;
        free(node->devices);
        free(node->uuids);
        free(node);
}

static void node_release(struct cluster *cluster, struct cluster_node *node)
{
        if (!node->is_known && !node->pods)
                node_remove(cluster, node);
}

int cluster_put_node(struct cluster *cluster, const struct object_node *from)
{
        size_t n = from->n_devices;
        _cleanup_(freep) struct placement_device *devices = calloc(n ? n : 1, sizeof(*devices));
        _cleanup_(freep) char(*uuids)[OBJECT_UUID] = calloc(n ? n : 1, sizeof(*uuids));
        struct cluster_node *node = devices && uuids ? node_find_or_add(cluster, from->name) : NULL;

        if (!node)
                return -ENOMEM;
        memcpy(devices, from->devices, n * sizeof(*devices));
        memcpy(uuids, from->uuids, n * sizeof(*uuids));
        free(node->devices);
        free(node->uuids);
        node->devices = TAKE(devices);
        node->uuids = TAKE(uuids);
        node->n_devices = n;
        node->swap = from->swap;
        node->problem = from->problem;
        node->is_cordoned = from->is_cordoned;
        node->is_known = true;
        node->round = cluster->node_round;
        node_recount(node);
        return 0;
}

static void node_lose(struct cluster *cluster, struct cluster_node *node)
{
        node->is_known = false;
        node->n_devices = 0;
        node->memo.shape = 0;
        node_release(cluster, node);
}

void cluster_drop_node(struct cluster *cluster, const char *name)
{
        struct cluster_node *node = node_find(cluster, name);

        if (node)
                node_lose(cluster, node);
}

struct cluster_node *cluster_node(const struct cluster *cluster, const char *name)
{
        struct cluster_node *node = node_find(cluster, name);

        return node && node->is_known ? node : NULL;
}

/* ---- pods -------------------------------------------------------------------------------------- */

static struct cluster_pod *pod_find(const struct cluster *cluster, const char *uid)
{
        struct cluster_pod *pod = map_get(&cluster->pods, hash(uid));

        while (pod && strcmp(pod->uid, uid) != 0)
                pod = pod->next;
        return pod;
}

const struct cluster_pod *cluster_pod(const struct cluster *cluster, const char *uid)
{
        return pod_find(cluster, uid);
}

static void pod_leave_node(struct cluster *cluster, struct cluster_pod *pod)
{
        struct cluster_node *node = pod->node;
        struct cluster_pod **at;

        if (!node)
                return;
        for (at = &node->pods; *at != pod; at = &(*at)->next_here)
                ;
        *at = pod->next_here;
        pod->node = NULL;
        node_recount(node);
        node_release(cluster, node);
}

static void pod_join_node(struct cluster_pod *pod, struct cluster_node *node)
{
        pod->node = node;
        pod->next_here = node->pods;
        node->pods = pod;
        node_recount(node);
}

static void pod_remove(struct cluster *cluster, struct cluster_pod *pod)
{
        uint64_t key = hash(pod->uid);
        struct cluster_pod *first = map_take(&cluster->pods, key), **at = &first;

        pod_leave_node(cluster, pod);
        cluster_job_leave(cluster, pod);
        while (*at != pod)
                at = &(*at)->next;
        *at = pod->next;
        if (first)
                (void)map_put(&cluster->pods, key, first);
        cluster->n_pods--;
        cluster->n_assumed -= pod->is_assumed;
        free(pod);
}

void cluster_drop_pod(struct cluster *cluster, const char *uid)
{
        struct cluster_pod *pod = pod_find(cluster, uid);

        if (pod)
                pod_remove(cluster, pod);
}

static char *append(char **at, const char *text)
{
        char *here = *at;

        *at = stpcpy(here, text) + 1;
        return here;
}

/* One block: the pod, its wants, its texts. Wants never change: the resources of a container are immutable. */
static struct cluster_pod *pod_new(const struct object_pod *from)
{
        size_t size = sizeof(struct cluster_pod) + from->n_wants * sizeof(struct placement_want) + strlen(from->uid) +
                      strlen(from->namespace) + strlen(from->name) + 3;
        struct cluster_pod *pod;
        char *text;

        for (size_t i = 0; i < from->n_wants; i++)
                size += strlen(from->containers[i]) + 1;
        pod = calloc(1, size);
        if (!pod)
                return NULL;
        text = (char *)&pod->wants[from->n_wants];
        pod->uid = append(&text, from->uid);
        pod->namespace = append(&text, from->namespace);
        pod->name = append(&text, from->name);
        pod->containers = text;
        for (size_t i = 0; i < from->n_wants; i++)
                (void)append(&text, from->containers[i]);
        memcpy(pod->wants, from->wants, from->n_wants * sizeof(*from->wants));
        pod->n_wants = (unsigned char)from->n_wants;
        pod->is_together = from->is_together;
        pod->has_swap = from->has_swap;
        pod->problem = from->problem;
        pod->job_pods = from->job_pods;
        memcpy(pod->created, from->created, sizeof(pod->created));
        return pod;
}

/* Of which job it is and of how many pods is what its first report says. */
static struct cluster_pod *pod_find_or_add(struct cluster *cluster, const struct object_pod *from)
{
        struct cluster_pod *pod = pod_find(cluster, from->uid);
        uint64_t key = hash(from->uid);

        if (pod)
                return pod;
        pod = map_reserve(&cluster->pods, 1) < 0 ? NULL : pod_new(from);
        if (pod && cluster_job_join(cluster, pod, from) < 0) {
                free(pod);
                pod = NULL;
        }
        if (!pod)
                return NULL;
        pod->next = map_take(&cluster->pods, key);
        (void)map_put(&cluster->pods, key, pod);
        cluster->n_pods++;
        for (size_t i = 0; i < from->n_wants && !from->is_over; i++, cluster->n_counted++)
                placement_mix_count(&cluster->mix, from->wants[i].memory);
        return pod;
}

/* A pod that the API server shows on a node. */
static int pod_bind(struct cluster *cluster, struct cluster_pod *pod, const struct object_pod *from)
{
        struct cluster_node *node = node_find_or_add(cluster, from->node);

        if (!node)
                return -ENOMEM;
        /* A binding without our annotation is somebody else's. */
        if (from->is_placed) {
                memcpy(pod->devices, from->devices, sizeof(pod->devices));
                pod->has_swap = from->has_swap;
        }
        if (from->is_placed || !pod->is_assumed || pod->node != node)
                pod->is_placed = from->is_placed;
        cluster->n_assumed -= pod->is_assumed;
        pod->is_assumed = pod->is_reserved = false;
        pod->is_bound = true;
        if (pod->node == node) {
                node_recount(node);
                return 0;
        }
        pod_leave_node(cluster, pod);
        pod_join_node(pod, node_find_or_add(cluster, from->node)); /* found again: leaving may have freed it */
        return 0;
}

int cluster_put_pod(struct cluster *cluster, const struct object_pod *from)
{
        struct cluster_pod *pod;

        if (from->is_over || !from->n_wants)
                cluster_drop_pod(cluster, from->uid);
        if (!from->n_wants || (from->is_over && !(from->has_succeeded && from->job_pods)))
                return 0;
        pod = pod_find_or_add(cluster, from);
        if (!pod)
                return -ENOMEM;
        pod->round = cluster->pod_round;
        pod->priority = from->priority;
        pod->tolerates_cordon = from->tolerates_cordon;
        pod->is_leaving = from->is_leaving || from->is_over;
        pod->has_succeeded = from->has_succeeded; /* C4 */
        /* C2: an unbound pod says nothing about a decision */
        return from->node[0] && !from->is_over ? pod_bind(cluster, pod, from) : 0;
}

int cluster_assume(struct cluster *cluster, const char *uid, const char *name, const struct placement *placement)
{
        struct cluster_pod *pod = pod_find(cluster, uid);
        struct cluster_node *node = node_find(cluster, name);

        if (!pod || !node || !node->is_known)
                return -ENOENT;
        if (pod->node)
                return -EBUSY;
        memcpy(pod->devices, placement->device, sizeof(pod->devices));
        pod->is_placed = pod->is_assumed = true;
        cluster->n_assumed++;
        pod_join_node(pod, node);
        return 0;
}

void cluster_forget(struct cluster *cluster, const char *uid)
{
        struct cluster_pod *pod = pod_find(cluster, uid);

        if (!pod || !pod->is_assumed)
                return;
        cluster->n_assumed--;
        pod->is_assumed = pod->is_placed = pod->is_reserved = false;
        pod_leave_node(cluster, pod);
}

void cluster_pod_get(const struct cluster_pod *pod, struct object_pod *ret)
{
        struct object_pod to = { .n_wants = pod->n_wants,
                                 .is_together = pod->is_together,
                                 .has_swap = pod->has_swap,
                                 .tolerates_cordon = pod->tolerates_cordon,
                                 .priority = pod->priority,
                                 .problem = pod->problem };
        const char *name = pod->containers;

        (void)stpncpy(to.uid, pod->uid, sizeof(to.uid) - 1);
        (void)stpncpy(to.namespace, pod->namespace, sizeof(to.namespace) - 1);
        (void)stpncpy(to.name, pod->name, sizeof(to.name) - 1);
        memcpy(to.wants, pod->wants, pod->n_wants * sizeof(*to.wants));
        for (size_t i = 0; i < pod->n_wants; i++, name += strlen(name) + 1)
                (void)stpncpy(to.containers[i], name, OBJECT_LABEL - 1);
        *ret = to;
}

/* ---- lists ------------------------------------------------------------------------------------- */

void cluster_list_begin(struct cluster *cluster, bool is_pods)
{
        if (is_pods)
                cluster->pod_round++;
        else
                cluster->node_round++;
}

/* Removal changes the map that is being walked, so the walk begins again after each; lists seldom lack anything. */
static bool sweep_pod(struct cluster *cluster)
{
        struct cluster_pod *pod;

        for (size_t i = 0; (pod = map_next(&cluster->pods, &i)) != NULL;)
                for (; pod; pod = pod->next)
                        if (pod->round != cluster->pod_round) {
                                pod_remove(cluster, pod);
                                return true;
                        }
        return false;
}

static bool sweep_node(struct cluster *cluster)
{
        struct cluster_node *node;

        for (size_t i = 0; (node = map_next(&cluster->nodes, &i)) != NULL;)
                for (; node; node = node->next)
                        if (node->is_known && node->round != cluster->node_round) {
                                node_lose(cluster, node);
                                return true;
                        }
        return false;
}

void cluster_list_end(struct cluster *cluster, bool is_pods)
{
        while (is_pods ? sweep_pod(cluster) : sweep_node(cluster))
                ;
}

void cluster_done(struct cluster *cluster)
{
        struct cluster_pod *pod;
        struct cluster_node *node;
        size_t i;

        while ((i = 0, pod = map_next(&cluster->pods, &i)) != NULL)
                pod_remove(cluster, pod);
        while ((i = 0, node = map_next(&cluster->nodes, &i)) != NULL)
                node_remove(cluster, node);
        map_done(&cluster->pods);
        map_done(&cluster->nodes);
}
