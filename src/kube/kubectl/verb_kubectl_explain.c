/* SPDX-License-Identifier: Apache-2.0 */
/* Why a pod waits for a GPU, node by node, and the end of which pods would make room: as the extender would answer now,
 * from a copy of the cluster of its own. */
#include "kube/kubectl/kubectl_pod.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/extender/jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        NAMED = 3, /* pods of a node that are named */
};

static const char usage[] = "usage: kubectl sublet explain POD [OPTION-OF-KUBECTL...]\n"
                            "Says where a pod's GPU memory is; or why it waits for it, and which pods' end would make "
                            "room.\n";

static int read_uid(const struct kubectl_words *words, bytes unit, struct object_pod *ret, struct err *err)
{
        const char *head[] = { "get", "pod", words->pod, "-o", "json", NULL };
        struct kubectl_call call;
        json_t *json = NULL;
        int r = kubectl_begin(&words->kubectl, head, NULL, false, &call);

        r = r < 0 ? r : kubectl_end(&call, &json);
        if (r < 0)
                return err_say(err, -EIO, "kubectl get pod %.100s failed", words->pod);
        r = object_pod_read(json, unit, ret);
        json_decref(json);
        return r < 0 ? err_say(err, -EINVAL, "%.100s is not a pod", words->pod) : 0;
}

static void print_place(const struct object_pod *pod)
{
        char size[BYTES_TEXT];

        for (size_t i = 0; i < pod->n_wants; i++) {
                (void)printf("container %s has %s", pod->containers[i], bytes_format(pod->wants[i].memory, size));
                if (pod->wants[i].share)
                        (void)printf(" and %u%% of the time", pod->wants[i].share / (PLACEMENT_WHOLE / 100));
                if (pod->is_placed)
                        (void)printf(" of device %u", pod->devices[i]);
                (void)printf(" on node %s%s%s\n", pod->node, pod->is_placed ? "" : " (device not known)",
                             pod->has_swap ? ", in turns with others" : "");
        }
}

static bool would_fit(const struct extend *extend, const struct cluster_node *node, const struct object_pod *pod,
                      const char *without)
{
        const struct placement_request request = extend_request(pod);
        struct placement_device devices[PLACEMENT_DEVICES];
        const struct placement_node view = cluster_view_without(node, &without, 1, devices);
        struct placement placement;

        return placement_pick(&view, &request, extend->policy, &extend->cluster.mix, &placement) == PLACEMENT_OK;
}

/* Pods whose end alone would make room. */
static void print_freeing(const struct extend *extend, const struct cluster_node *node, const struct object_pod *pod)
{
        unsigned int n = 0;

        for (const struct cluster_pod *p = node->pods; p; p = p->next_here) {
                if (!would_fit(extend, node, pod, p->uid))
                        continue;
                if (n < NAMED)
                        (void)printf("%s%s/%s", n ? ", or " : "    it would fit without ", p->namespace, p->name);
                n++;
        }
        if (n)
                (void)printf("%s\n", n > NAMED ? ", or others" : "");
}

static int by_name(const void *a, const void *b)
{
        return strcmp((*(const struct cluster_node *const *)a)->name, (*(const struct cluster_node *const *)b)->name);
}

static int print_nodes(struct extend *extend, const struct object_pod *pod)
{
        _cleanup_(freep) const struct cluster_node **nodes =
                calloc(extend->cluster.n_nodes + 1, sizeof(struct cluster_node *));
        const struct cluster_node *node;
        size_t n = 0;

        if (!nodes)
                return -ENOMEM;
        for (size_t i = 0; (node = map_next(&extend->cluster.nodes, &i)) != NULL;)
                for (; node; node = node->next)
                        if (node->problem || node->n_devices)
                                nodes[n++] = node;
        qsort(nodes, n, sizeof(struct cluster_node *), by_name);
        for (size_t i = 0; i < n; i++) {
                char why[EXTEND_WHY];
                struct placement placement;
                bool fits = extend_pick(extend, nodes[i]->name, pod, &placement, why) == PLACEMENT_OK;

                (void)printf("  %s: %s\n", nodes[i]->name,
                             nodes[i]->is_cordoned ? "it is cordoned" :
                             fits                  ? "it has room: ask kubectl describe what else keeps the pod" :
                                                     why);
                if (!fits && !pod->problem)
                        print_freeing(extend, nodes[i], pod);
        }
        if (!n)
                (void)printf("  no node has GPU memory to rent\n");
        return 0;
}

/* A job's pods in the copy have places afterwards, if there are such. */
static int print_waiting(struct extend *extend, const struct object_pod *pod)
{
        char why[EXTEND_WHY] = "";

        if (pod->job_pods)
                jobs_explain(extend, pod->uid, why);
        (void)printf("pod %s/%s waits%s%s\n", pod->namespace, pod->name, *why ? ": " : "", why);
        if (!pod->job_pods || *why)
                return print_nodes(extend, pod);
        (void)printf("  its job '%s' is whole and has room: the scheduler will come to it\n", pod->job);
        return 0;
}

static int print_pod(const struct kubectl_words *words, struct extend *extend, struct err *err)
{
        struct object_pod pod;
        int r = read_uid(words, extend->cluster.unit, &pod, err);

        if (r < 0)
                return r;
        if (!pod.n_wants && !pod.problem)
                (void)printf("pod %s/%s rents no GPU memory\n", pod.namespace, pod.name);
        else if (pod.is_over)
                (void)printf("pod %s/%s has ended, and holds nothing\n", pod.namespace, pod.name);
        else if (pod.node[0])
                print_place(&pod);
        else if (pod.problem)
                (void)printf("pod %s/%s can never be placed: %s\n", pod.namespace, pod.name, pod.problem);
        else if ((r = kubectl_read_cluster(&words->kubectl, &extend->cluster, err)) == 0)
                r = print_waiting(extend, &pod);
        return r;
}

int kubectl_explain(int argc, char **argv, bytes unit)
{
        struct extend extend = { .cluster.unit = unit, .now = clock_now() };
        struct kubectl_words words;
        struct err err = { 0 };
        int r;

        kubectl_words(argc, argv, false, &words);
        if (!words.pod) {
                (void)fputs(usage, stderr);
                return 1;
        }
        r = print_pod(&words, &extend, &err);
        if (r < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text[0] ? err.text : strerror(-r));
        cluster_done(&extend.cluster);
        return r < 0;
}
