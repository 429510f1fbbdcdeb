/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/spec.h"

#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

json_t *spec_hook(const struct spec_paths *paths, const char *name)
{
        json_t *hook = json_pack("{s:s, s:[s, s, s, s]}", "path", paths->program, "args", "sublet", "hook", "--dir",
                                 paths->dir);

        if (hook && name)
                (void)json_object_set_new(hook, "hookName", json_string(name));
        return hook;
}

/* Whether `sublet oci spec` wrote it: by its arguments, whatever the program's path was. */
static bool is_ours(const json_t *hook)
{
        const char *verb = json_string_value(json_array_get(json_object_get(hook, "args"), 1)),
                   *name = json_string_value(json_array_get(json_object_get(hook, "args"), 0));

        return verb && name && !strcmp(verb, "hook") && !strcmp(name, "sublet");
}

static json_t *object_of(json_t *parent, const char *key)
{
        json_t *child = json_object_get(parent, key);

        if (!json_is_object(child)) {
                child = json_object();
                (void)json_object_set_new(parent, key, child);
        }
        return child;
}

static void put_hook(json_t *hooks, const char *when, const struct spec_paths *paths)
{
        json_t *list = json_object_get(hooks, when), *hook;
        size_t i = json_array_size(list);

        if (!json_is_array(list)) {
                list = json_array();
                (void)json_object_set_new(hooks, when, list);
        }
        while (i-- > 0)
                if ((hook = json_array_get(list, i)) && is_ours(hook))
                        (void)json_array_remove(list, i);
        (void)json_array_append_new(list, spec_hook(paths, NULL));
}

int spec_make(const json_t *spec, json_t *profile, const struct spec_paths *paths, json_t **ret, struct err *err)
{
        json_t *made;

        if (!json_is_string(json_object_get(spec, "ociVersion")) || !json_is_object(json_object_get(spec, "linux")))
                return err_say(err, -EINVAL,
                               "no specification: it has no ociVersion, or no linux part "
                               "('ctr oci spec' and 'runc spec' print one)");
        made = json_deep_copy(spec);
        if (!made)
                return err_set(err, -ENOMEM, "writing the specification");
        (void)json_object_set(json_object_get(made, "linux"), "seccomp", profile);
        put_hook(object_of(made, "hooks"), "createRuntime", paths);
        *ret = made;
        return 0;
}

char *spec_containerd(const struct spec_paths *paths)
{
        char *text = NULL;

        if (asprintf(&text,
                     "# Into /etc/containerd/config.toml (version = 2), then: systemctl restart containerd\n"
                     "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.%s]\n"
                     "  runtime_type = \"io.containerd.runc.v2\"\n"
                     "  base_runtime_spec = \"%s\"\n"
                     "  pod_annotations = [\"sublet.dev/*\"]\n"
                     "  container_annotations = [\"sublet.dev/*\"]\n",
                     paths->name, paths->file) < 0)
                return NULL;
        return text;
}

char *spec_class(const struct spec_paths *paths)
{
        char *text = NULL;

        if (asprintf(&text,
                     "apiVersion: node.k8s.io/v1\n"
                     "kind: RuntimeClass\n"
                     "metadata:\n"
                     "  name: %s\n"
                     "handler: %s\n",
                     paths->name, paths->name) < 0)
                return NULL;
        return text;
}
