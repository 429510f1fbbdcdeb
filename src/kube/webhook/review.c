/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/webhook/review.h"

#include "base/cleanup.h"
#include "kube/client/names.h"
#include "kube/client/reach.h"
#include "kube/extender/object.h"
#include "kube/webhook/answer.h"
#include "kube/webhook/patch.h"
#include "kube/webhook/sleep.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Kubelets before 1.27 read these where the profile's field is not set, even when an update added them. */
#define SECCOMP_OF_POD "seccomp.security.alpha.kubernetes.io/pod"
#define SECCOMP_OF_CONTAINER "container.seccomp.security.alpha.kubernetes.io/"

#define SHOWN_STATIC "kubernetes.io/config.mirror"
#define VISIBLE "NVIDIA_VISIBLE_DEVICES"

enum {
        WHY = TRANSLATE_WHY,
        PATH = 400,
        LISTS_AT_CREATION = 2, /* no pod is created with ephemeral containers */
};

static const char *const lists[] = { "containers", "initContainers", "ephemeralContainers" };

static const char *text_at(const json_t *json, const char *name)
{
        return json_string_value(json_object_get(json, name));
}

static bool begins(const char *text, const char *with)
{
        return !strncmp(text, with, strlen(with));
}

static bool is_our_annotation(const char *key)
{
        return !strcmp(key, ANNOTATION_ALLOCATION) || begins(key, "ALIYUN_COM_GPU_MEM_");
}

/* At creation these say no more than resources do, so anybody may write them; later they would move what is counted. */
static bool is_fixed_annotation(const char *key)
{
        return is_our_annotation(key) || !strcmp(key, ANNOTATION_COUNTS) || !strcmp(key, ANNOTATION_VOCABULARY) ||
               !strcmp(key, ANNOTATION_SWAP);
}

static bool is_seccomp_annotation(const char *key)
{
        return !strcmp(key, SECCOMP_OF_POD) || begins(key, SECCOMP_OF_CONTAINER);
}

/* Variables that runtime, plugin or hook set in a container; a value that the pod chose would mislead. */
static bool is_our_variable(const char *name)
{
        static const char *const names[] = { VISIBLE, "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY",
                                             "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!strcmp(name, names[i]))
                        return true;
        return begins(name, "SUBLET_") || begins(name, "ALIYUN_COM_GPU_MEM_");
}

static bool asks(const json_t *container)
{
        static const char *const names[] = { NAME_MEMORY, NAME_SHARE, NAME_ALIYUN_MEMORY, NAME_COUNT,
                                             NAME_ALIYUN_COUNT };
        const json_t *resources = json_object_get(container, "resources");

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (json_object_get(json_object_get(resources, "limits"), names[i]) ||
                    json_object_get(json_object_get(resources, "requests"), names[i]))
                        return true;
        return false;
}

/* ---- patches ----------------------------------------------------------------------------------- */

static void strip_annotations(const json_t *pod, json_t *patches)
{
        json_t *annotations = json_object_get(json_object_get(pod, "metadata"), "annotations"), *value;
        char path[PATH], part[PATH / 2];
        const char *key;

        json_object_foreach (annotations, key, value) {
                if (!is_our_annotation(key))
                        continue;
                patch_escape(key, part, sizeof(part));
                (void)snprintf(path, sizeof(path), "/metadata/annotations/%s", part);
                patch_add(patches, "remove", path, NULL);
        }
}

/* No device for a container that asks for none, whatever its image says: with "all", which NVIDIA's images set, our
 * hook would refuse to start it. */
static void put_void(const json_t *container, const char *at, json_t *patches)
{
        json_t *variable = json_pack("{s:s,s:s}", "name", VISIBLE, "value", "void");
        bool has_list = json_is_array(json_object_get(container, "env"));
        char path[PATH];

        (void)snprintf(path, sizeof(path), has_list ? "%s/env/-" : "%s/env", at);
        patch_add(patches, "add", path, has_list ? variable : json_pack("[o]", variable));
}

/* From the end: a removal must not shift the indices of later patches. */
static void strip_environment(const json_t *container, const char *at, json_t *patches)
{
        const json_t *list = json_object_get(container, "env");
        char path[PATH];

        for (size_t i = json_array_size(list); i-- > 0;) {
                const char *name = text_at(json_array_get(list, i), "name");

                if (!name || !is_our_variable(name) ||
                    (!strcmp(name, VARIABLE_CLASS) && translate_may_set(container, json_array_get(list, i))))
                        continue;
                (void)snprintf(path, sizeof(path), "%s/env/%zu", at, i);
                patch_add(patches, "remove", path, NULL);
        }
}

/* RuntimeDefault would replace the runtime class's own profile, so each container names ours itself. */
static void set_profile(const struct review_settings *settings, const json_t *container, const char *at,
                        json_t *patches)
{
        json_t *profile = json_pack("{s:s,s:s}", "type", "Localhost", "localhostProfile", settings->profile);
        bool has_context = json_object_get(container, "securityContext") != NULL;
        char path[PATH];

        (void)snprintf(path, sizeof(path), "%s/securityContext%s", at, has_context ? "/seccompProfile" : "");
        patch_add(patches, "add", path, has_context ? profile : json_pack("{s:o}", "seccompProfile", profile));
}

static bool is_in(const json_t *containers, const char *name)
{
        const json_t *container;
        size_t i;

        json_array_foreach (containers, i, container) {
                const char *other = text_at(container, "name");

                if (name && other && !strcmp(name, other))
                        return true;
        }
        return false;
}

/* The containers of a list, but for those that are in another one, too: by their names, for their order may change. */
static void mutate_list(const struct review_settings *settings, const json_t *pod, const char *list, const json_t *but,
                        json_t *patches)
{
        const json_t *containers = json_object_get(json_object_get(pod, "spec"), list);
        char at[64];

        for (size_t i = 0; i < json_array_size(containers); i++) {
                const json_t *container = json_array_get(containers, i);

                if (is_in(but, text_at(container, "name")))
                        continue;
                (void)snprintf(at, sizeof(at), "/spec/%s/%zu", list, i);
                strip_environment(container, at, patches);
                if (!asks(container))
                        put_void(container, at, patches);
                translate_variables(pod, container, at, patches);
                if (settings->profile)
                        set_profile(settings, container, at, patches);
        }
}

static bool rents(const json_t *pod)
{
        const json_t *container;
        size_t i;

        for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
                json_array_foreach (json_object_get(json_object_get(pod, "spec"), lists[k]), i, container)
                        if (asks(container))
                                return true;
        return false;
}

static void mutate(const struct review_settings *settings, const json_t *pod, json_t *patches)
{
        const json_t *spec = json_object_get(pod, "spec");
        const char *scheduler = text_at(spec, "schedulerName");

        if (!rents(pod))
                return;
        if (settings->scheduler && (!scheduler || !*scheduler || !strcmp(scheduler, "default-scheduler")))
                patch_add(patches, "add", "/spec/schedulerName", json_string(settings->scheduler));
        if (settings->runtime_class && !text_at(spec, "runtimeClassName"))
                patch_add(patches, "add", "/spec/runtimeClassName", json_string(settings->runtime_class));
        for (size_t k = 0; k < LISTS_AT_CREATION; k++) /* all containers: one can pass an open descriptor to another */
                mutate_list(settings, pod, lists[k], NULL, patches);
        patch_counts(pod, patches);
}

/* The containers of `kubectl debug` that are new. The others cannot be changed any more. */
static void mutate_added(const struct review_settings *settings, const json_t *request, json_t *patches)
{
        const char *list = lists[LISTS_AT_CREATION], *part = text_at(request, "subResource");
        const json_t *pod = json_object_get(request, "object"),
                     *old = json_object_get(json_object_get(request, "oldObject"), "spec");

        if (part && !strcasecmp(part, list) && rents(pod))
                mutate_list(settings, pod, list, json_object_get(old, list), patches);
}

/* ---- refusals ---------------------------------------------------------------------------------- */

/* The effective profile of a container: its own, or the pod's. */
static const json_t *profile_of(const json_t *spec, const json_t *container)
{
        const json_t *own = json_object_get(json_object_get(container, "securityContext"), "seccompProfile");

        return own ? own : json_object_get(json_object_get(spec, "securityContext"), "seccompProfile");
}

static bool is_good_profile(const struct review_settings *settings, const json_t *profile)
{
        const char *type = text_at(profile, "type"), *local = text_at(profile, "localhostProfile");

        if (settings->profile)
                return type && local && !strcmp(type, "Localhost") && !strcmp(local, settings->profile);
        return !type || !strcmp(type, "Unconfined"); /* the runtime class's own profile stays in force */
}

/* For a container of the pod that rents nothing: a driver's descriptor can be passed to it, so it must be under the
 * gate too. Without a profile it is under the runtime class's. */
static bool is_good_neighbour(const struct review_settings *settings, const json_t *profile)
{
        const char *type = text_at(profile, "type");

        return is_good_profile(settings, profile) ||
               (settings->runtime_class && (!type || !strcmp(type, "Unconfined")));
}

/* The value that put_void writes. */
static bool is_void(const json_t *container, const json_t *variable)
{
        const char *name = text_at(variable, "name"), *value = text_at(variable, "value");

        return !asks(container) && !strcmp(name, VISIBLE) && value && !strcmp(value, "void");
}

static bool judge_container(const struct review_settings *settings, const json_t *spec, const json_t *container,
                            char why[static WHY])
{
        const char *name = text_at(container, "name");
        const json_t *variable;
        size_t i;

        name = name ? name : "?";
        if (json_is_true(json_object_get(json_object_get(container, "securityContext"), "privileged"))) {
                (void)snprintf(
                        why, WHY,
                        "container %.63s is privileged: no seccomp filter reaches it, so its GPU cannot be shared",
                        name);
                return false;
        }
        if (!(asks(container) ? is_good_profile : is_good_neighbour)(settings, profile_of(spec, container))) {
                (void)snprintf(why, WHY, "container %.63s %s under another seccomp profile: leave seccompProfile unset",
                               name, asks(container) ? "rents a GPU" : "of a pod that rents a GPU is");
                return false;
        }
        json_array_foreach (json_object_get(container, "env"), i, variable) {
                const char *key = text_at(variable, "name");

                if (key && is_our_variable(key) && !is_void(container, variable) &&
                    !translate_may_set(container, variable)) {
                        (void)snprintf(why, WHY, "container %.63s sets %.100s, which is set for it", name, key);
                        return false;
                }
        }
        return true;
}

/* Annotations name containers, even later ones (kubectl debug). The pod-wide annotation need not be judged: at creation
 * the API server turns it into the field. */
static bool judge_annotations(const struct review_settings *settings, const json_t *pod, char why[static WHY])
{
        json_t *annotations = json_object_get(json_object_get(pod, "metadata"), "annotations"), *value;
        const char *key;

        json_object_foreach (annotations, key, value) {
                const char *text = json_string_value(value);
                bool is_ours = settings->profile && text && begins(text, "localhost/") &&
                               !strcmp(text + strlen("localhost/"), settings->profile);

                if (!begins(key, SECCOMP_OF_CONTAINER) || is_ours ||
                    (settings->runtime_class && text && !strcmp(text, "unconfined")))
                        continue;
                (void)snprintf(
                        why, WHY,
                        "annotation %.120s of a pod that rents a GPU names another seccomp profile: leave it out", key);
                return false;
        }
        return true;
}

static bool judge_spec(const struct review_settings *settings, const json_t *pod, bool is_new, char why[static WHY])
{
        const json_t *spec = json_object_get(pod, "spec"), *container;
        const char *class = text_at(spec, "runtimeClassName"), *node = text_at(spec, "nodeName");
        char reached[WHY / 2];
        size_t i;

        /* It would count on every device of the node (cluster.h C3), and never run. */
        if (is_new && settings->scheduler && node && *node) {
                (void)snprintf(why, WHY,
                               "a pod that rents a GPU is placed by scheduler %.100s: leave nodeName unset, nothing "
                               "would say on which device it is",
                               settings->scheduler);
                return false;
        }
        if (settings->runtime_class && (!class || strcmp(class, settings->runtime_class) != 0)) {
                (void)snprintf(why, WHY, "a pod that rents a GPU runs in runtime class %.100s",
                               settings->runtime_class);
                return false;
        }
        if (is_new && reach_is_wide(spec, reached, sizeof(reached))) {
                (void)snprintf(why, WHY, "a pod that rents a GPU may not have %s", reached);
                return false;
        }
        for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
                json_array_foreach (json_object_get(spec, lists[k]), i, container)
                        if (!judge_container(settings, spec, container, why))
                                return false;
        return judge_annotations(settings, pod, why);
}

static bool is_trusted(const struct review_settings *settings, const json_t *request)
{
        const char *user = text_at(json_object_get(request, "userInfo"), "username"), *at = settings->trusted;
        size_t n = user ? strlen(user) : 0;

        while (n && at && *at) {
                size_t one = strcspn(at, ",");

                if (one == n && !strncmp(at, user, n))
                        return true;
                at += one + (at[one] == ',');
        }
        return false;
}

/* Whether both have the same annotations of one kind. */
static bool has_same_annotations(const json_t *old, const json_t *new, bool (*is_one)(const char *key))
{
        json_t *a = json_object_get(json_object_get(old, "metadata"), "annotations"),
               *b = json_object_get(json_object_get(new, "metadata"), "annotations"), *value;
        const char *key;

        json_object_foreach (a, key, value)
                if (is_one(key) && !json_equal(value, json_object_get(b, key)))
                        return false;
        json_object_foreach (b, key, value)
                if (is_one(key) && !json_equal(value, json_object_get(a, key)))
                        return false;
        return true;
}

/* A static pod as its kubelet shows it. Only that node's account may say so. */
static bool is_static(const json_t *request, const json_t *pod)
{
        static const char account[] = "system:node:";
        const char *user = text_at(json_object_get(request, "userInfo"), "username"),
                   *node = text_at(json_object_get(pod, "spec"), "nodeName");

        return text_at(json_object_get(json_object_get(pod, "metadata"), "annotations"), SHOWN_STATIC) && user &&
               node && begins(user, account) && !strcmp(user + strlen(account), node);
}

static bool judge_review(const struct review_settings *settings, const json_t *request, bool is_update,
                         char why[static WHY])
{
        const json_t *pod = json_object_get(request, "object"), *old = json_object_get(request, "oldObject");
        struct object_pod read;
        json_t *named;
        bool is_pod;

        if (is_update && !is_trusted(settings, request) &&
            !has_same_annotations(old, pod, is_fixed_annotation)) { /* R2 */
                (void)snprintf(why, WHY,
                               "you may not change %s, %s, %s or %s, by which a pod is counted on its devices",
                               ANNOTATION_ALLOCATION, ANNOTATION_COUNTS, ANNOTATION_VOCABULARY, ANNOTATION_SWAP);
                return false;
        }
        if (!is_update && is_static(request, pod))
                return true; /* R4 */
        if (!is_update && translate_problem(&settings->translate, pod, why))
                return false;
        if (!rents(pod))
                return true;
        if (!sleep_judge(is_update ? old : NULL, pod, why))
                return false;
        if (is_update && !has_same_annotations(old, pod, is_seccomp_annotation)) { /* R3 */
                (void)snprintf(why, WHY, "the seccomp annotations of a pod that rents a GPU cannot be changed");
                return false;
        }
        if (is_update && !text_at(request, "subResource"))
                return true;                         /* resources and security of an existing pod are immutable */
        named = json_copy((json_t *)(uintptr_t)pod); /* at creation it may lack a name (generateName) and a uid */
        (void)json_object_set_new(named, "metadata", json_copy(json_object_get(pod, "metadata")));
        (void)json_object_update_new(json_object_get(named, "metadata"),
                                     json_pack("{s:s,s:s}", "name", "new", "uid", "new"));
        is_pod = object_pod_read(named, 1, &read) == 0;
        json_decref(named);
        if (!is_pod || read.problem) {
                (void)snprintf(why, WHY, "%s", is_pod ? read.problem : "the object is not a pod");
                return false;
        }
        return judge_spec(settings, pod, !is_update, why);
}

/* ---- the answer ---------------------------------------------------------------------------------- */

json_t *review_answer(const struct review_settings *settings, const json_t *review, bool is_mutating)
{
        const json_t *request = json_object_get(review, "request"), *pod = json_object_get(request, "object");
        const char *operation = text_at(request, "operation");
        bool is_update = operation && !strcmp(operation, "UPDATE");
        char why[WHY] = "";
        json_t *patches, *translated;

        if (!json_is_object(pod) || !json_is_object(json_object_get(pod, "metadata")))
                return answer_refuse(request, "the review has no pod");
        if (!is_mutating)
                return judge_review(settings, request, is_update, why) ? answer_allow(request, NULL) :
                                                                         answer_refuse(request, why);
        patches = json_array();
        if (is_update)
                mutate_added(settings, request, patches);
        else if (!is_static(request, pod)) {
                if (!is_trusted(settings, request))
                        strip_annotations(pod, patches);
                translated = translate_pod(&settings->translate, pod, patches);
                mutate(settings, translated ? translated : pod, patches);
                json_decref(translated);
        }
        return answer_allow(request, patches);
}
