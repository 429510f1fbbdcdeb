/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a base profile as an engine would.
 *
 * Docker and containers/common ship theirs with conditions: a rule counts only with or without certain capabilities, on
 * certain architectures, or from a kernel on. An engine resolves them for each container; here it is done once, for a
 * tenant's container.
 */
#include "oci/profile.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static const char *const docker_default[] = {
        "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FSETID",  "CAP_FOWNER",      "CAP_MKNOD",
        "CAP_SETGID", "CAP_SETUID",       "CAP_SETFCAP", "CAP_SETPCAP",     "CAP_NET_BIND_SERVICE",
        "CAP_KILL",   "CAP_SYS_CHROOT",   "CAP_NET_RAW", "CAP_AUDIT_WRITE", NULL,
};

static bool has(const char *const *words, const char *word)
{
        while (word && *words)
                if (!strcmp(*words++, word))
                        return true;
        return false;
}

/* Whether one name of the list, or each of them, is among the words. */
static bool meets(const json_t *list, const char *const *words, bool all)
{
        const json_t *element;
        size_t i;

        json_array_foreach (list, i, element) {
                if (has(words, json_string_value(element)) != all)
                        return !all;
        }
        return all;
}

static bool is_this_machine(const json_t *arches)
{
        static const char *const names[] = { "amd64", NULL };

        return !arches || meets(arches, names, false);
}

/* Whether this kernel is at least the given one: "4.8". */
static bool is_old_enough(const json_t *kernel)
{
        unsigned int major, minor, our_major = 0, our_minor = 0;
        struct utsname machine;

        if (!json_string_value(kernel))
                return true;
        if (sscanf(json_string_value(kernel), "%u.%u", &major, &minor) != 2 || uname(&machine) < 0 ||
            sscanf(machine.release, "%u.%u", &our_major, &our_minor) != 2)
                return false;
        return our_major > major || (our_major == major && our_minor >= minor);
}

/* "includes" wants all capabilities, one architecture and the kernel; "excludes" applies if any matches. */
static bool counts(const json_t *rule, const char *const *capabilities)
{
        const json_t *in = json_object_get(rule, "includes"), *out = json_object_get(rule, "excludes"), *caps;

        if (!is_this_machine(json_object_get(in, "arches")) || !is_old_enough(json_object_get(in, "minKernel")))
                return false;
        caps = json_object_get(in, "caps");
        if (json_array_size(caps) && !meets(caps, capabilities, true))
                return false;
        if (json_object_get(out, "arches") && is_this_machine(json_object_get(out, "arches")))
                return false;
        if (json_object_get(out, "minKernel") && is_old_enough(json_object_get(out, "minKernel")))
                return false;
        return !meets(json_object_get(out, "caps"), capabilities, false);
}

static void copy_members(json_t *to, const json_t *from, const char *const *keys, size_t n)
{
        json_t *value;

        for (size_t i = 0; i < n; i++)
                if ((value = json_object_get(from, keys[i])) && !json_is_null(value))
                        (void)json_object_set(to, keys[i], value);
}

/* Drops conditions, comments and names of error numbers, which runtimes do not read. "name" is an older form. */
static json_t *plain(const json_t *rule)
{
        static const char *const kept[] = { "names", "action", "args", "errnoRet" };
        json_t *made = json_object(), *value;

        copy_members(made, rule, kept, ARRAY_SIZE(kept));
        if (!json_object_get(made, "names") && (value = json_object_get(rule, "name")))
                (void)json_object_set_new(made, "names", json_pack("[O]", value));
        return made;
}

static bool is_rule(const json_t *rule)
{
        const json_t *names = json_object_get(rule, "names"), *element;
        size_t i;

        json_array_foreach (names, i, element) {
                if (!json_is_string(element))
                        return false;
        }
        return json_array_size(names) && json_is_string(json_object_get(rule, "action"));
}

int profile_resolve(const json_t *base, const char *const *capabilities, json_t **ret, struct err *err)
{
        static const char *const kept[] = { "defaultErrnoRet", "listenerPath", "listenerMetadata" };
        const char *otherwise = json_string_value(json_object_get(base, "defaultAction"));
        const json_t *rules = json_object_get(base, "syscalls"), *rule;
        json_t *made, *list;
        size_t i;

        if (!otherwise || !json_is_array(rules))
                return err_say(err, -EINVAL, "no seccomp profile: it has no defaultAction, or no syscalls");
        list = json_array();
        made = json_pack("{s:s, s:o}", "defaultAction", otherwise, "syscalls", list);
        if (!made)
                return err_set(err, -ENOMEM, "reading the profile");
        copy_members(made, base, kept, ARRAY_SIZE(kept));
        json_array_foreach (rules, i, rule) {
                json_t *copy = plain(rule);

                if (!is_rule(copy)) {
                        json_decref(copy);
                        json_decref(made);
                        return err_say(err, -EINVAL, "no seccomp profile: rule %zu has no names, or no action", i + 1);
                }
                if (counts(rule, capabilities ? capabilities : docker_default))
                        (void)json_array_append(list, copy);
                json_decref(copy);
        }
        *ret = made;
        return 0;
}
