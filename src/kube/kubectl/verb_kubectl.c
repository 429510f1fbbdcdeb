/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `kubectl sublet`: what each GPU of the cluster has rented out, and to which pods. A kubectl plugin: kubectl-sublet in
 * the PATH is a link to `sublet`.
 *
 * It runs kubectl itself (kubectl.h) with the options it was given. Nodes and pods are read as the extender reads them,
 * and joined with what the daemons report (observe.h).
 */
#include "kube/kubectl/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/extender/cluster.h"
#include "kube/kubectl/kubectl_pod.h"
#include "kube/kubectl/observe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
        "usage: kubectl sublet [--json] [OPTION-OF-KUBECTL...]\n"
        "       kubectl sublet explain POD [OPTION-OF-KUBECTL...]\n"
        "       kubectl sublet set POD KEY=VALUE... [OPTION-OF-KUBECTL...]\n"
        "Lists the GPUs of the cluster: how much of their memory and time is rented, by which pods, "
        "and how much these\n"
        "use now. The daemons report USED and BUSY through the API server (needs rights for "
        "pods/proxy or pods/exec);\n"
        "'-' where one does not answer. A unit of sublet.dev/gpu-mem is 1 GiB, or $SUBLET_UNIT; "
        "the daemons are in\n"
        "the namespace sublet, or $SUBLET_NAMESPACE.\n";

static int kubectl_get(const struct kubectl *kubectl, const char *kind, json_t **ret, struct err *err)
{
        const char *head[] = { "get", kind, "-o", "json", !strcmp(kind, "nodes") ? NULL : "--all-namespaces", NULL };
        struct kubectl_call call;
        int r = kubectl_begin(kubectl, head, NULL, false, &call);

        if (r < 0)
                return err_set(err, r, "running kubectl");
        return kubectl_end(&call, ret) < 0 ? err_say(err, -EIO, "kubectl get %s failed", kind) : 0;
}

static void take_nodes(struct cluster *cluster, const json_t *list)
{
        const json_t *item;
        struct object_node node;
        size_t i;

        json_array_foreach (json_object_get(list, "items"), i, item)
                if (object_node_read(item, cluster->unit, &node) == 0)
                        (void)cluster_put_node(cluster, &node);
}

static void take_pods(struct cluster *cluster, const json_t *list)
{
        const json_t *item;
        struct object_pod pod;
        size_t i;

        json_array_foreach (json_object_get(list, "items"), i, item)
                if (object_pod_read(item, cluster->unit, &pod) == 0)
                        (void)cluster_put_pod(cluster, &pod);
}

/* ---- what each container has ------------------------------------------------------------------- */

typedef void (*each_container)(void *context, const struct cluster_pod *pod, size_t i, const char *container);

static void for_each(const struct cluster_node *node, size_t device, each_container each, void *context)
{
        for (const struct cluster_pod *pod = node->pods; pod; pod = pod->next_here) {
                const char *container = pod->containers;

                for (size_t i = 0; i < pod->n_wants; container += strlen(container) + 1, i++)
                        if (!pod->is_placed || pod->devices[i] == device)
                                each(context, pod, i, container);
        }
}

struct device_view {
        const struct observe *observe;
        const struct cluster_node *node;
        size_t device;
        json_t *list;        /* for JSON */
        const char *between; /* for text: what separates two containers */
};

static bool seen_of(const struct device_view *at, const struct cluster_pod *pod, const char *container,
                    struct observe_sum *ret)
{
        return observe_sum(at->observe, at->node->name, at->device, pod ? pod->uid : NULL, container, ret) &&
               (ret->n || !pod);
}

/* ---- as text ----------------------------------------------------------------------------------- */

static void print_container(void *context, const struct cluster_pod *pod, size_t i, const char *container)
{
        struct device_view *at = context;
        struct observe_sum seen;
        char size[BYTES_TEXT];

        (void)printf("%s%s/%s:%s %s", at->between, pod->namespace, pod->name, container,
                     bytes_format(pod->wants[i].memory, size));
        if (pod->wants[i].share)
                (void)printf(" %u%%", pod->wants[i].share / (PLACEMENT_WHOLE / 100));
        if (seen_of(at, pod, container, &seen))
                (void)printf(" (uses %s, %u%%)", bytes_format(seen.held, size), (seen.busy + 5) / 10);
        (void)printf("%s", pod->is_placed ? "" : " (device not known)");
        at->between = ", ";
}

static void print_device(const struct observe *observe, const struct cluster_node *node, size_t i)
{
        const struct placement_device *device = &node->devices[i];
        struct device_view at = { .observe = observe, .node = node, .device = i, .between = "" };
        char rented[BYTES_TEXT], total[BYTES_TEXT], used[BYTES_TEXT] = "-", busy[8] = "-";
        struct observe_sum seen;

        if (seen_of(&at, NULL, NULL, &seen)) {
                (void)bytes_format(seen.held, used);
                (void)snprintf(busy, sizeof(busy), "%u%%", (seen.busy + 5) / 10 % 10000);
        }
        (void)printf("%-32s %6zu %10s / %-10s %4u%%  %10s %5s  %-7s ", node->name, i,
                     bytes_format(placement_rented(device), rented), bytes_format(device->total, total),
                     device->share_used / (PLACEMENT_WHOLE / 100), used, busy,
                     device->is_unhealthy ? "sick" : "healthy");
        for_each(node, i, print_container, &at);
        (void)printf("\n");
}

static void print_node(const struct observe *observe, const struct cluster_node *node)
{
        if (node->problem)
                (void)printf("%-32s %s\n", node->name, node->problem);
        for (size_t i = 0; i < node->n_devices; i++)
                print_device(observe, node, i);
}

/* ---- as JSON ----------------------------------------------------------------------------------- */

static void set_seen(json_t *to, bool is_known, const struct observe_sum *seen)
{
        (void)json_object_set_new(to, "used_bytes", is_known ? json_integer((json_int_t)seen->held) : json_null());
        (void)json_object_set_new(to, "busy_permille", is_known ? json_integer(seen->busy) : json_null());
}

static void add_container(void *context, const struct cluster_pod *pod, size_t i, const char *container)
{
        const struct device_view *at = context;
        struct observe_sum seen;
        bool is_known = seen_of(at, pod, container, &seen);
        json_t *one = json_pack("{s:s,s:s,s:s,s:s,s:I,s:i,s:b}", "namespace", pod->namespace, "pod", pod->name, "uid",
                                pod->uid, "container", container, "rented_bytes", (json_int_t)pod->wants[i].memory,
                                "share_permille", (int)pod->wants[i].share, "placed", (int)pod->is_placed);

        set_seen(one, is_known, &seen);
        (void)json_array_append_new(at->list, one);
}

static json_t *node_json(const struct observe *observe, const struct cluster_node *node)
{
        json_t *devices = json_array();

        for (size_t i = 0; i < node->n_devices; i++) {
                const struct placement_device *device = &node->devices[i];
                struct device_view at = { .observe = observe, .node = node, .device = i, .list = json_array() };
                struct observe_sum seen;
                bool is_known = seen_of(&at, NULL, NULL, &seen);
                json_t *one =
                        json_pack("{s:i,s:s,s:I,s:I,s:i,s:b}", "device", (int)i, "uuid", node->uuids[i], "memory_bytes",
                                  (json_int_t)device->total, "rented_bytes", (json_int_t)placement_rented(device),
                                  "share_permille", (int)device->share_used, "healthy", (int)!device->is_unhealthy);

                set_seen(one, is_known, &seen);
                for_each(node, i, add_container, &at);
                (void)json_object_set_new(one, "containers", at.list);
                (void)json_array_append_new(devices, one);
        }
        return json_pack("{s:s,s:s?,s:o}", "node", node->name, "problem", node->problem, "devices", devices);
}

/* ------------------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
        return strcmp((*(const struct cluster_node *const *)a)->name, (*(const struct cluster_node *const *)b)->name);
}

/* The nodes with something to rent, by name. */
static size_t sorted(const struct cluster *cluster, const struct cluster_node **to)
{
        const struct cluster_node *node;
        size_t n = 0;

        for (size_t i = 0; (node = map_next(&cluster->nodes, &i)) != NULL;)
                for (; node; node = node->next)
                        if (node->problem || node->n_devices)
                                to[n++] = node;
        qsort(to, n, sizeof(*to), by_name);
        return n;
}

static int print_cluster(const struct cluster *cluster, const struct observe *observe, bool is_json)
{
        _cleanup_(freep) const struct cluster_node **nodes =
                calloc(cluster->n_nodes + 1, sizeof(struct cluster_node *));
        size_t n = nodes ? sorted(cluster, nodes) : 0;
        json_t *list = json_array();

        if (!nodes || !list)
                return -ENOMEM;
        if (!is_json)
                (void)printf("%-32s %6s %10s   %-10s %5s  %10s %5s  %-7s %s\n", "NODE", "DEVICE", "RENTED", "MEMORY",
                             "SHARE", "USED", "BUSY", "STATE", "PODS");
        for (size_t i = 0; i < n; i++)
                if (is_json)
                        (void)json_array_append_new(list, node_json(observe, nodes[i]));
                else
                        print_node(observe, nodes[i]);
        if (is_json)
                (void)(json_dumpf(list, stdout, JSON_INDENT(2)), printf("\n"));
        json_decref(list);
        return 0;
}

int kubectl_read_cluster(const struct kubectl *kubectl, struct cluster *cluster, struct err *err)
{
        json_t *nodes = NULL, *pods = NULL;
        int r = kubectl_get(kubectl, "nodes", &nodes, err);

        if (r == 0)
                r = kubectl_get(kubectl, "pods", &pods, err);
        if (r == 0) {
                take_nodes(cluster, nodes);
                take_pods(cluster, pods);
        }
        json_decref(nodes);
        json_decref(pods);
        return r;
}

static int show_cluster(const struct kubectl *kubectl, bytes unit, bool is_json, struct err *err)
{
        struct cluster cluster = { .unit = unit };
        struct observe observe = { 0 };
        const char *namespace = getenv("SUBLET_NAMESPACE");
        json_t *nodes = NULL, *pods = NULL;
        int r = kubectl_get(kubectl, "nodes", &nodes, err);

        if (r == 0)
                r = kubectl_get(kubectl, "pods", &pods, err);
        if (r == 0 && (r = observe_ask(kubectl, pods, namespace && *namespace ? namespace : "sublet", &observe)) < 0)
                r = err_set(err, r, "asking the daemons");
        if (r == 0) {
                take_nodes(&cluster, nodes);
                take_pods(&cluster, pods);
                r = print_cluster(&cluster, &observe, is_json);
        }
        json_decref(nodes);
        json_decref(pods);
        observe_done(&observe);
        cluster_done(&cluster);
        return r;
}

/* Removes --json from the options, which are kubectl's otherwise. */
static bool take_json(int *argc, char **argv)
{
        bool is_there = false;
        int n = 1;

        for (int i = 1; i < *argc; i++)
                if (!strcmp(argv[i], "--json"))
                        is_there = true;
                else
                        argv[n++] = argv[i];
        *argc = n;
        return is_there;
}

int kubectl_main(int argc, char **argv)
{
        const char *unit_text = getenv("SUBLET_UNIT");
        bool is_json = take_json(&argc, argv);
        struct kubectl kubectl = { argv + 1, argc - 1 };
        struct err err = { 0 };
        char wrong[BYTES_WRONG];
        bytes unit = GIB;
        int r;

        if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
                (void)fputs(usage, stdout);
                return 0;
        }
        if (unit_text && bytes_parse(unit_text, 0, &unit) < 0) {
                (void)fprintf(stderr, "sublet: SUBLET_UNIT=%s: %s\n", unit_text,
                              bytes_wrong(unit_text, "not a size such as 1G", wrong));
                return 2;
        }
        if (argc > 1 && !strcmp(argv[1], "explain"))
                return kubectl_explain(argc - 2, argv + 2, unit);
        if (argc > 1 && !strcmp(argv[1], "set"))
                return kubectl_set(argc - 2, argv + 2, unit);
        r = show_cluster(&kubectl, unit, is_json, &err);
        if (r < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        return r < 0;
}
