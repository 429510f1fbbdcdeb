/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kubectl/observe.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMPONENT "app.kubernetes.io/component"

enum {
        AT_ONCE = 16,
        PATH = 700,
};

struct daemon_pod {
        const char *node, *namespace, *name; /* borrowed from the list */
        struct kubectl_call call;
        bool is_asked;
};

static const char *text_at(const json_t *json, const char *a, const char *b)
{
        return json_string_value(json_object_get(json_object_get(json, a), b));
}

/* A running daemon in the namespace that only the operator writes to: anybody may label a pod of theirs so. */
static bool is_daemon(const json_t *pod, const char *namespace, struct daemon_pod *ret)
{
        const json_t *labels = json_object_get(json_object_get(pod, "metadata"), "labels");
        const char *component = json_string_value(json_object_get(labels, COMPONENT)),
                   *phase = text_at(pod, "status", "phase");

        *ret = (struct daemon_pod){ .node = text_at(pod, "spec", "nodeName"),
                                    .namespace = text_at(pod, "metadata", "namespace"),
                                    .name = text_at(pod, "metadata", "name") };
        return component && !strcmp(component, "daemon") && phase && !strcmp(phase, "Running") && ret->node &&
               ret->name && ret->namespace && !strcmp(ret->namespace, namespace);
}

static int begin_raw(const struct kubectl *kubectl, struct daemon_pod *pod)
{
        char path[PATH];
        const char *head[] = { "get", "--raw", path, "--request-timeout=3s", NULL };

        (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s:9180/proxy/v1/tenants", pod->namespace,
                       pod->name);
        return kubectl_begin(kubectl, head, NULL, true, &pod->call);
}

static int begin_exec(const struct kubectl *kubectl, struct daemon_pod *pod)
{
        const char *head[] = { "exec", "-n", pod->namespace, pod->name, "-c", "daemon", "--request-timeout=5s", NULL },
                   *tail[] = { "sublet", "ps", "--json", NULL };

        return kubectl_begin(kubectl, head, tail, true, &pod->call);
}

/* A group at once. Nodes that have answered already are skipped. */
static void ask_group(const struct kubectl *kubectl, struct daemon_pod *pods, size_t n, json_t *tenants,
                      int (*begin)(const struct kubectl *, struct daemon_pod *))
{
        for (size_t i = 0; i < n; i++)
                pods[i].is_asked = !json_object_get(tenants, pods[i].node) && begin(kubectl, &pods[i]) == 0;
        for (size_t i = 0; i < n; i++) {
                json_t *answer = NULL;

                if (pods[i].is_asked && kubectl_end(&pods[i].call, &answer) == 0 && json_is_array(answer))
                        (void)json_object_set(tenants, pods[i].node, answer);
                json_decref(answer);
        }
}

int observe_ask(const struct kubectl *kubectl, const json_t *list, const char *namespace, struct observe *ret)
{
        json_t *tenants = json_object();
        const json_t *item;
        struct daemon_pod group[AT_ONCE];
        size_t i, n = 0, n_items = json_array_size(json_object_get(list, "items"));

        if (!tenants)
                return -ENOMEM;
        json_array_foreach (json_object_get(list, "items"), i, item) {
                n += is_daemon(item, namespace, &group[n]);
                if (n < AT_ONCE && i + 1 < n_items)
                        continue;
                ask_group(kubectl, group, n, tenants, begin_raw);
                ask_group(kubectl, group, n, tenants, begin_exec);
                n = 0;
        }
        ret->tenants = tenants;
        return 0;
}

void observe_done(struct observe *observe)
{
        json_decref(observe->tenants);
        observe->tenants = NULL;
}

static bool is_of(const json_t *tenant, const char *pod, const char *container)
{
        const char *its_pod = text_at(tenant, "container", "pod"), *its = text_at(tenant, "container", "container");

        return !pod || (its_pod && its && !strcmp(its_pod, pod) && !strcmp(its, container));
}

bool observe_sum(const struct observe *observe, const char *node, size_t device, const char *pod, const char *container,
                 struct observe_sum *ret)
{
        const json_t *tenants = json_object_get(observe->tenants, node), *tenant, *one;
        size_t i, k;

        *ret = (struct observe_sum){ 0 };
        json_array_foreach (tenants, i, tenant)
                json_array_foreach (json_object_get(tenant, "devices"), k, one) {
                        json_int_t held = json_integer_value(json_object_get(one, "held_bytes")),
                                   busy = json_integer_value(json_object_get(one, "granted_permille"));

                        if (json_integer_value(json_object_get(one, "index")) != (json_int_t)device ||
                            !is_of(tenant, pod, container) || held < 0 || busy < 0 || busy > 1000)
                                continue;
                        if (__builtin_add_overflow(ret->held, (bytes)held, &ret->held))
                                ret->held = UINT64_MAX;
                        ret->busy += (unsigned int)busy;
                        ret->n++;
                }
        return tenants != NULL;
}
