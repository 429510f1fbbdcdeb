/*
 * `kubectl sublet`: what each GPU of the cluster has rented out, and to whom. A plugin of kubectl's: a file named
 * kubectl-sublet in the PATH, which is a link to `sublet`.
 *
 * It asks by running kubectl itself, with whatever options it was given (--context, --kubeconfig, ...): so every way of
 * logging in that kubectl knows is known here. What comes is read as the extender reads it.
 */
#include "kube/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/cluster.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum {
        ARGS_MAX = 32,
};

static const char usage[] =
        "usage: kubectl sublet [OPTION-OF-KUBECTL...]\n"
        "Lists the GPUs of the cluster: what is rented of their memory and time, and the pods that have it.\n"
        "A unit of sublet.dev/gpu-mem is 1 GiB, or $SUBLET_UNIT.\n";

/* The items of `kubectl get KIND -o json`, handed on one by one. */
static int get(char **options, int n_options, const char *kind, json_t **ret, struct err *err)
{
        const char *args[ARGS_MAX + 8] = { "kubectl", "get", kind, "-o", "json", "--all-namespaces" };
        int n = 6 - !strcmp(kind, "nodes"), pipes[2], status = 0, r;
        posix_spawn_file_actions_t actions;
        json_t *root;
        FILE *from;
        pid_t pid;

        for (int i = 0; i < n_options && i < ARGS_MAX; i++)
                args[n++] = options[i];
        args[n] = NULL;
        if (pipe(pipes) < 0)
                return err_set(err, -errno, "running kubectl");
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
        (void)posix_spawn_file_actions_addclose(&actions, pipes[0]);
        (void)posix_spawn_file_actions_addclose(&actions, pipes[1]);
        r = posix_spawnp(&pid, "kubectl", &actions, NULL, (char *const *)(uintptr_t)args, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)close(pipes[1]);
        from = fdopen(pipes[0], "r");
        if (r || !from)
                return err_set(err, r ? -r : -ENOMEM, "running kubectl");
        root = json_loadf(from, JSON_DISABLE_EOF_CHECK, NULL);
        while (fgetc(from) != EOF)
                ;
        (void)fclose(from);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !root) {
                json_decref(root);
                return err_say(err, -EIO, "kubectl get %s failed", kind);
        }
        *ret = root;
        return 0;
}

static void take_nodes(struct cluster *cluster, const json_t *list)
{
        const json_t *item;
        struct object_node node;
        size_t i;

        json_array_foreach(json_object_get(list, "items"), i, item) if (object_node_read(item, cluster->unit, &node) ==
                                                                        0)(void) cluster_put_node(cluster, &node);
}

static void take_pods(struct cluster *cluster, const json_t *list)
{
        const json_t *item;
        struct object_pod pod;
        size_t i;

        json_array_foreach(json_object_get(list, "items"), i, item) if (object_pod_read(item, cluster->unit, &pod) ==
                                                                        0)(void) cluster_put_pod(cluster, &pod);
}

static void print_pods(const struct cluster_node *node, size_t device)
{
        const char *between = "";

        for (const struct cluster_pod *pod = node->pods; pod; pod = pod->next_here) {
                const char *container = pod->containers;

                for (size_t i = 0; i < pod->n_wants; container += strlen(container) + 1, i++) {
                        char size[BYTES_TEXT];

                        if (pod->is_placed && pod->devices[i] != device)
                                continue;
                        (void)printf("%s%s/%s:%s %s", between, pod->space, pod->name, container,
                                     bytes_format(pod->wants[i].memory, size));
                        if (pod->wants[i].share)
                                (void)printf(" %u%%", pod->wants[i].share / (PLACE_WHOLE / 100));
                        (void)printf("%s", pod->is_placed ? "" : " (device not known)");
                        between = ", ";
                }
        }
        (void)printf("\n");
}

static void print_node(const struct cluster_node *node)
{
        char used[BYTES_TEXT], total[BYTES_TEXT];

        if (node->problem)
                (void)printf("%-32s %s\n", node->name, node->problem);
        for (size_t i = 0; i < node->n_devices; i++) {
                const struct place_device *device = &node->devices[i];

                (void)printf("%-32s %6zu %10s / %-10s %4u%%  %-7s ", node->name, i, bytes_format(device->used, used),
                             bytes_format(device->total, total), device->share_used / (PLACE_WHOLE / 100),
                             device->is_sick ? "sick" : "healthy");
                print_pods(node, i);
        }
}

static int by_name(const void *a, const void *b)
{
        return strcmp((*(const struct cluster_node *const *)a)->name, (*(const struct cluster_node *const *)b)->name);
}

static int print(const struct cluster *cluster)
{
        _cleanup_(freep) const struct cluster_node **nodes =
                calloc(cluster->n_nodes + 1, sizeof(struct cluster_node *));
        const struct cluster_node *node;
        size_t n = 0;

        if (!nodes)
                return -ENOMEM;
        for (size_t i = 0; (node = map_next(&cluster->nodes, &i)) != NULL;)
                for (; node; node = node->next)
                        nodes[n++] = node;
        qsort(nodes, n, sizeof(*nodes), by_name);
        (void)printf("%-32s %6s %10s   %-10s %5s  %-7s %s\n", "NODE", "DEVICE", "RENTED", "MEMORY", "SHARE", "STATE",
                     "PODS");
        for (size_t i = 0; i < n; i++)
                print_node(nodes[i]);
        return 0;
}

int kubectl_main(int argc, char **argv)
{
        struct cluster cluster = { .unit = GIB };
        json_t *nodes = NULL, *pods = NULL;
        const char *unit = getenv("SUBLET_UNIT");
        struct err err = { 0 };
        int r;

        if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
                (void)fputs(usage, stdout);
                return 0;
        }
        if (unit && bytes_parse(unit, 0, &cluster.unit) < 0) {
                (void)fprintf(stderr, "sublet: SUBLET_UNIT=%s: not a size such as 1G\n", unit);
                return 2;
        }
        r = get(argv + 1, argc - 1, "nodes", &nodes, &err);
        if (r == 0)
                r = get(argv + 1, argc - 1, "pods", &pods, &err);
        if (r == 0) {
                take_nodes(&cluster, nodes);
                take_pods(&cluster, pods);
                r = print(&cluster);
        } else
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        json_decref(nodes);
        json_decref(pods);
        cluster_done(&cluster);
        return r < 0;
}
