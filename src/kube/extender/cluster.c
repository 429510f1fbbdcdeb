/*
 * Nodes are found by name and pods by UID, through a hash whose rare collisions are chained. After every change of a node
 * or of its pods what its devices have given is counted anew from its pods: a node has tens of them, and a sum that is
 * never adjusted cannot drift (C1).
 */
#include "kube/extender/cluster.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

static uint64_t hash_sized(const char *text, size_t size)
{
        uint64_t h = 14695981039346656037u; /* FNV-1a */

        for (size_t i = 0; i < size; i++)
                h = (h ^ (unsigned char)text[i]) * 1099511628211u;
        return h;
}

static uint64_t hash(const char *text)
{
        return hash_sized(text, strlen(text));
}

/* ---- counting ---------------------------------------------------------------------------------- */

static void add(struct place_device *device, const struct place_want *want)
{
        if (__builtin_add_overflow(device->used, want->memory, &device->used))
                device->used = UINT64_MAX;
        if (__builtin_add_overflow(device->share_used, want->share, &device->share_used))
                device->share_used = UINT32_MAX;
}

static void count_pod(const struct cluster_pod *pod, struct place_device *devices, size_t n_devices)
{
        for (size_t i = 0; i < pod->n_wants; i++) {
                if (pod->is_placed) {
                        if (pod->devices[i] < n_devices)
                                add(&devices[pod->devices[i]], &pod->wants[i]);
                        continue;
                }
                for (size_t k = 0; k < n_devices; k++) /* C3 */
                        add(&devices[k], &pod->wants[i]);
        }
}

static bool is_among(const char *uid, const char *const *uids, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!strcmp(uid, uids[i]))
                        return true;
        return false;
}

size_t cluster_devices_without(const struct cluster_node *node, const char *const *without, size_t n_without,
                               struct place_device *to)
{
        for (size_t i = 0; i < node->n_devices; i++) {
                to[i] = node->devices[i];
                to[i].used = 0;
                to[i].share_used = 0;
        }
        for (const struct cluster_pod *pod = node->pods; pod; pod = pod->next_here)
                if (!is_among(pod->uid, without, n_without))
                        count_pod(pod, to, node->n_devices);
        return node->n_devices;
}

static void recount(struct cluster_node *node)
{
        struct place_device devices[PLACE_DEVICES];

        (void)cluster_devices_without(node, NULL, 0, devices);
        if (node->n_devices)
                memcpy(node->devices, devices, node->n_devices * sizeof(*devices));
        node->memo.shape = 0;
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static struct cluster_node *find_sized(const struct cluster *cluster, const char *name, size_t size)
{
        struct cluster_node *node = map_get(&cluster->nodes, hash_sized(name, size));

        while (node && (strncmp(node->name, name, size) != 0 || node->name[size]))
                node = node->next;
        return node;
}

static struct cluster_node *find_node(const struct cluster *cluster, const char *name)
{
        return find_sized(cluster, name, strlen(name));
}

static struct cluster_node *need_node(struct cluster *cluster, const char *name)
{
        struct cluster_node *node = find_node(cluster, name);
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

/* A chain loses one; `at` is its link there, and the map has its first. */
static void unchain_node(struct cluster *cluster, struct cluster_node *node)
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

static void release_node(struct cluster *cluster, struct cluster_node *node)
{
        if (!node->is_known && !node->pods)
                unchain_node(cluster, node);
}

int cluster_put_node(struct cluster *cluster, const struct object_node *from)
{
        size_t n = from->n_devices;
        _cleanup_(freep) struct place_device *devices = calloc(n ? n : 1, sizeof(*devices));
        _cleanup_(freep) char(*uuids)[OBJECT_UUID] = calloc(n ? n : 1, sizeof(*uuids));
        struct cluster_node *node = devices && uuids ? need_node(cluster, from->name) : NULL;

        if (!node)
                return -ENOMEM;
        memcpy(devices, from->devices, n * sizeof(*devices));
        memcpy(uuids, from->uuids, n * sizeof(*uuids));
        free(node->devices);
        free(node->uuids);
        node->devices = TAKE(devices);
        node->uuids = TAKE(uuids);
        node->n_devices = n;
        node->problem = from->problem;
        node->is_known = true;
        node->round = cluster->node_round;
        recount(node);
        return 0;
}

static void lose_node(struct cluster *cluster, struct cluster_node *node)
{
        node->is_known = false;
        node->n_devices = 0;
        node->memo.shape = 0;
        release_node(cluster, node);
}

void cluster_drop_node(struct cluster *cluster, const char *name)
{
        struct cluster_node *node = find_node(cluster, name);

        if (node)
                lose_node(cluster, node);
}

const struct cluster_node *cluster_node(const struct cluster *cluster, const char *name)
{
        return cluster_node_sized(cluster, name, strlen(name));
}

struct cluster_node *cluster_node_sized(const struct cluster *cluster, const char *name, size_t size)
{
        struct cluster_node *node = find_sized(cluster, name, size);

        return node && node->is_known ? node : NULL;
}

/* ---- pods -------------------------------------------------------------------------------------- */

static struct cluster_pod *find_pod(const struct cluster *cluster, const char *uid)
{
        struct cluster_pod *pod = map_get(&cluster->pods, hash(uid));

        while (pod && strcmp(pod->uid, uid) != 0)
                pod = pod->next;
        return pod;
}

const struct cluster_pod *cluster_pod(const struct cluster *cluster, const char *uid)
{
        return find_pod(cluster, uid);
}

static void leave_node(struct cluster *cluster, struct cluster_pod *pod)
{
        struct cluster_node *node = pod->node;
        struct cluster_pod **at;

        if (!node)
                return;
        for (at = &node->pods; *at != pod; at = &(*at)->next_here)
                ;
        *at = pod->next_here;
        pod->node = NULL;
        recount(node);
        release_node(cluster, node);
}

static void join_node(struct cluster_pod *pod, struct cluster_node *node)
{
        pod->node = node;
        pod->next_here = node->pods;
        node->pods = pod;
        recount(node);
}

static void drop_pod(struct cluster *cluster, struct cluster_pod *pod)
{
        uint64_t key = hash(pod->uid);
        struct cluster_pod *first = map_take(&cluster->pods, key), **at = &first;

        leave_node(cluster, pod);
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
        struct cluster_pod *pod = find_pod(cluster, uid);

        if (pod)
                drop_pod(cluster, pod);
}

static char *append(char **at, const char *text)
{
        char *here = *at;

        *at = stpcpy(here, text) + 1;
        return here;
}

/* One block: the pod, its wants, its texts. A pod's wants never change: resources of a container are immutable. */
static struct cluster_pod *pod_new(const struct object_pod *from)
{
        size_t size = sizeof(struct cluster_pod) + from->n_wants * sizeof(struct place_want) + strlen(from->uid) +
                      strlen(from->space) + strlen(from->name) + 3;
        struct cluster_pod *pod;
        char *text;

        for (size_t i = 0; i < from->n_wants; i++)
                size += strlen(from->containers[i]) + 1;
        pod = calloc(1, size);
        if (!pod)
                return NULL;
        text = (char *)&pod->wants[from->n_wants];
        pod->uid = append(&text, from->uid);
        pod->space = append(&text, from->space);
        pod->name = append(&text, from->name);
        pod->containers = text;
        for (size_t i = 0; i < from->n_wants; i++)
                (void)append(&text, from->containers[i]);
        memcpy(pod->wants, from->wants, from->n_wants * sizeof(*from->wants));
        pod->n_wants = (unsigned char)from->n_wants;
        pod->is_together = from->is_together;
        pod->problem = from->problem;
        return pod;
}

static struct cluster_pod *need_pod(struct cluster *cluster, const struct object_pod *from)
{
        struct cluster_pod *pod = find_pod(cluster, from->uid);
        uint64_t key = hash(from->uid);

        if (pod)
                return pod;
        pod = map_reserve(&cluster->pods, 1) < 0 ? NULL : pod_new(from);
        if (!pod)
                return NULL;
        pod->next = map_take(&cluster->pods, key);
        (void)map_put(&cluster->pods, key, pod);
        cluster->n_pods++;
        for (size_t i = 0; i < from->n_wants; i++)
                place_mix_count(&cluster->mix, from->wants[i].memory);
        cluster->n_counted += from->n_wants;
        return pod;
}

/* A pod that the API server shows on a node. */
static int settle(struct cluster *cluster, struct cluster_pod *pod, const struct object_pod *from)
{
        struct cluster_node *node = need_node(cluster, from->node);

        if (!node)
                return -ENOMEM;
        /* A report of the binding may come without the annotation only from somebody else's binding. */
        if (from->is_placed)
                memcpy(pod->devices, from->devices, sizeof(pod->devices));
        if (from->is_placed || !pod->is_assumed || pod->node != node)
                pod->is_placed = from->is_placed;
        cluster->n_assumed -= pod->is_assumed;
        pod->is_assumed = false;
        pod->is_bound = true;
        if (pod->node == node) {
                recount(node);
                return 0;
        }
        leave_node(cluster, pod);
        join_node(pod, need_node(cluster, from->node)); /* leaving may have freed it, if nobody else was there */
        return 0;
}

int cluster_put_pod(struct cluster *cluster, const struct object_pod *from)
{
        struct cluster_pod *pod;

        if (from->is_over || !from->n_wants) {
                cluster_drop_pod(cluster, from->uid);
                return 0;
        }
        pod = need_pod(cluster, from);
        if (!pod)
                return -ENOMEM;
        pod->round = cluster->pod_round;
        pod->priority = from->priority;
        return from->node[0] ? settle(cluster, pod, from) : 0; /* C2: not bound yet says nothing about a decision */
}

int cluster_assume(struct cluster *cluster, const char *uid, const char *name, const struct place *place)
{
        struct cluster_pod *pod = find_pod(cluster, uid);
        struct cluster_node *node = find_node(cluster, name);

        if (!pod || !node || !node->is_known)
                return -ENOENT;
        if (pod->node)
                return -EBUSY;
        memcpy(pod->devices, place->device, sizeof(pod->devices));
        pod->is_placed = pod->is_assumed = true;
        cluster->n_assumed++;
        join_node(pod, node);
        return 0;
}

void cluster_forget(struct cluster *cluster, const char *uid)
{
        struct cluster_pod *pod = find_pod(cluster, uid);

        if (!pod || !pod->is_assumed)
                return;
        cluster->n_assumed--;
        pod->is_assumed = pod->is_placed = false;
        leave_node(cluster, pod);
}

void cluster_pod_get(const struct cluster_pod *pod, struct object_pod *ret)
{
        struct object_pod to = { .n_wants = pod->n_wants,
                                 .is_together = pod->is_together,
                                 .priority = pod->priority,
                                 .problem = pod->problem };
        const char *name = pod->containers;

        (void)stpncpy(to.uid, pod->uid, sizeof(to.uid) - 1);
        (void)stpncpy(to.space, pod->space, sizeof(to.space) - 1);
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

/* Dropping changes the map that is looked through, so it begins again after each: lists seldom lack anything. */
static bool sweep_pod(struct cluster *cluster)
{
        struct cluster_pod *pod;

        for (size_t i = 0; (pod = map_next(&cluster->pods, &i)) != NULL;)
                for (; pod; pod = pod->next)
                        if (pod->round != cluster->pod_round) {
                                drop_pod(cluster, pod);
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
                                lose_node(cluster, node);
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
                drop_pod(cluster, pod);
        while ((i = 0, node = map_next(&cluster->nodes, &i)) != NULL)
                unchain_node(cluster, node);
        map_done(&cluster->pods);
        map_done(&cluster->nodes);
}
