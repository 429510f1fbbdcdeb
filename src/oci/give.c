/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/give.h"

#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The list at `key`, made where there is none; NULL: something else is there, or no memory. */
static json_t *list_of(json_t *parent, const char *key)
{
        json_t *list = json_object_get(parent, key);

        if (!list || json_is_null(list)) {
                list = json_array();
                if (json_object_set_new(parent, key, list) < 0)
                        return NULL;
        }
        return json_is_array(list) ? list : NULL;
}

static bool has(const json_t *list, const char *key, const char *value)
{
        const json_t *one;
        size_t i;

        json_array_foreach (list, i, one) {
                const char *text = json_string_value(json_object_get(one, key));

                if (text && !strcmp(text, value))
                        return true;
        }
        return false;
}

static int give_variable(json_t *env, const char *text)
{
        size_t n = strcspn(text, "=") + 1, i = json_array_size(env);

        while (i-- > 0) {
                const char *there = json_string_value(json_array_get(env, i));

                if (there && !strncmp(there, text, n))
                        (void)json_array_remove(env, i);
        }
        return json_array_append_new(env, json_string(text));
}

static int give_mount(json_t *mounts, const json_t *mount)
{
        const char *to = json_string_value(json_object_get(mount, "containerPath"));

        if (!to || has(mounts, "destination", to))
                return to ? 0 : -1;
        return json_array_append_new(mounts, json_pack("{s:s, s:O, s:s, s:O}", "destination", to, "source",
                                                       json_object_get(mount, "hostPath"), "type", "bind", "options",
                                                       json_object_get(mount, "options")));
}

static bool has_rule(const json_t *rules, const json_t *rule)
{
        const json_t *one;
        size_t i;

        json_array_foreach (rules, i, one) {
                if (json_equal(one, rule))
                        return true;
        }
        return false;
}

static int give_node(json_t *nodes, json_t *rules, const char *path, struct err *err)
{
        json_int_t major, minor;
        struct stat is;
        json_t *rule;

        if (stat(path, &is) < 0)
                return err_set(err, -errno, "the device's node %s", path);
        if (!S_ISCHR(is.st_mode))
                return err_say(err, -EINVAL, "%s is no device's node", path);
        major = (json_int_t)major(is.st_rdev), minor = (json_int_t)minor(is.st_rdev);
        rule = json_pack("{s:b, s:s, s:I, s:I, s:s}", "allow", 1, "type", "c", "major", major, "minor", minor, "access",
                         "rw");
        if (has_rule(rules, rule))
                json_decref(rule);
        else if (json_array_append_new(rules, rule) < 0)
                return err_set(err, -ENOMEM, "giving %s", path);
        if (!has(nodes, "path", path) &&
            json_array_append_new(nodes,
                                  json_pack("{s:s, s:s, s:I, s:I, s:i, s:i, s:i}", "path", path, "type", "c", "major",
                                            major, "minor", minor, "fileMode", 0666, "uid", 0, "gid", 0)) < 0)
                return err_set(err, -ENOMEM, "giving %s", path);
        return 0;
}

struct lists {
        json_t *env, *mounts, *nodes, *rules;
};

static int find_lists(json_t *spec, struct lists *ret, struct err *err)
{
        json_t *linux_part = json_object_get(spec, "linux"), *resources = json_object_get(linux_part, "resources");

        if (json_is_object(linux_part) && !resources) {
                resources = json_object();
                (void)json_object_set_new(linux_part, "resources", resources);
        }
        *ret = (struct lists){ .env = list_of(json_object_get(spec, "process"), "env"),
                               .mounts = list_of(spec, "mounts"),
                               .nodes = list_of(linux_part, "devices"),
                               .rules = list_of(resources, "devices") };
        if (!ret->env || !ret->mounts || !ret->nodes || !ret->rules)
                return err_say(err, -EINVAL, "no specification: process.env, mounts or linux.devices is no list");
        return 0;
}

static int apply(const json_t *edits, const struct lists *lists, struct err *err)
{
        const json_t *one;
        size_t i;
        int r = 0;

        json_array_foreach (json_object_get(edits, "env"), i, one)
                r |= give_variable(lists->env, json_string_value(one));
        json_array_foreach (json_object_get(edits, "mounts"), i, one)
                r |= give_mount(lists->mounts, one);
        if (r < 0)
                return err_set(err, -ENOMEM, "giving the devices");
        json_array_foreach (json_object_get(edits, "deviceNodes"), i, one) {
                r = give_node(lists->nodes, lists->rules, json_string_value(json_object_get(one, "path")), err);
                if (r < 0)
                        return r;
        }
        return 0;
}

int give_devices(json_t *spec, const json_t *cdi, struct err *err)
{
        const json_t *device;
        struct lists lists;
        size_t i;
        int r = find_lists(spec, &lists, err);

        r = r < 0 ? r : apply(json_object_get(cdi, "containerEdits"), &lists, err);
        json_array_foreach (json_object_get(cdi, "devices"), i, device) {
                const char *name = json_string_value(json_object_get(device, "name"));

                if (r == 0 && name && !strcmp(name, "all"))
                        r = apply(json_object_get(device, "containerEdits"), &lists, err);
        }
        return r;
}
