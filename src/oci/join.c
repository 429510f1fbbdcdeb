/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins a base profile and the gate's rules. Of the base's rules only the plain ones for ioctl and mmap change: the
 * gate's rules replace them, with rules for the requests that those leave. All for remap_file_pages go: the gate
 * refuses it.
 */
#include "oci/profile.h"

#include "base/err.h"
#include "gate/policy/caught.h"

#include <errno.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

/* Appends a rule; takes the references to its conditions, which may be NULL. */
static void put_rule(json_t *rules, const char *call, const char *action, json_t *first, json_t *second)
{
        json_t *rule = json_pack("{s:[s], s:s, s:[]}", "names", call, "action", action, "args");

        if (first)
                (void)json_array_append_new(json_object_get(rule, "args"), first);
        if (second)
                (void)json_array_append_new(json_object_get(rule, "args"), second);
        (void)json_array_append_new(rules, rule);
}

/* F1, F2; and all other requests, which are compared last (profile.h). */
static void put_ioctl(json_t *rules, bool is_allowed)
{
        struct caught caught[CAUGHT_MAX];
        size_t n = caught_requests(caught);

        for (size_t i = 0; i < n; i++)
                put_rule(rules, "ioctl", "SCMP_ACT_NOTIFY",
                         profile_condition(1, caught[i].mask, caught[i].value, "SCMP_CMP_MASKED_EQ"), NULL);
        if (is_allowed)
                put_rule(rules, "ioctl", "SCMP_ACT_ALLOW", profile_condition(1, 0, 0, "SCMP_CMP_GE"), NULL);
}

static json_t *flags_are(uint64_t flags)
{
        return profile_condition(3, CAUGHT_MMAP_MASK, flags, "SCMP_CMP_MASKED_EQ");
}

/* F3; and the rest, in parts that do not overlap: the three other pairs of the two flags, or a lower offset. */
static void put_mmap(json_t *rules, bool is_allowed)
{
        static const int others[] = { 0, MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS };

        put_rule(rules, "mmap", "SCMP_ACT_NOTIFY", flags_are(CAUGHT_MMAP_FLAGS),
                 profile_condition(5, CAUGHT_MMAP_OFFSET, 0, "SCMP_CMP_GE"));
        if (!is_allowed)
                return;
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                put_rule(rules, "mmap", "SCMP_ACT_ALLOW", flags_are((uint64_t)others[i]), NULL);
        put_rule(rules, "mmap", "SCMP_ACT_ALLOW", flags_are(CAUGHT_MMAP_FLAGS),
                 profile_condition(5, CAUGHT_MMAP_OFFSET, 0, "SCMP_CMP_LT"));
}

struct join {
        json_t *rules;
        bool has_ioctl, has_mmap; /* the base allows them */
};

/* Appends a rule of the base without ioctl and mmap, unless no name is left. */
static int put_rest(struct join *join, const json_t *of, struct err *err)
{
        const char *action = text_of(of, "action"), *name;
        json_t *names = json_array(), *copy;
        const json_t *element;
        size_t i;

        json_array_foreach (json_object_get(of, "names"), i, element) {
                bool is_ioctl = (name = json_string_value(element)) && !strcmp(name, "ioctl");

                if (name && !strcmp(name, "remap_file_pages"))
                        continue;
                if (!is_ioctl && (!name || strcmp(name, "mmap") != 0)) {
                        (void)json_array_append(names, (json_t *)(uintptr_t)element);
                        continue;
                }
                if (strcmp(action, "SCMP_ACT_ALLOW") != 0 || json_array_size(json_object_get(of, "args"))) {
                        json_decref(names);
                        return err_say(err, -EINVAL,
                                       "the base profile has a rule of its own for %s (%s): take a base that allows it",
                                       name, action);
                }
                *(is_ioctl ? &join->has_ioctl : &join->has_mmap) = true;
        }
        copy = json_copy((json_t *)(uintptr_t)of);
        (void)json_object_set_new(copy, "names", names);
        if (json_array_size(names))
                (void)json_array_append(join->rules, copy);
        json_decref(copy);
        return 0;
}

static int put_base(struct join *join, const json_t *base, struct err *err)
{
        const json_t *element;
        size_t i;
        int r = 0;

        if (json_object_get(base, "listenerPath") || json_object_get(base, "listenerMetadata"))
                return err_say(err, -EINVAL, "the base profile has a listener, and a container has one at most");
        json_array_foreach (json_object_get(base, "syscalls"), i, element) {
                if (!strcmp(text_of(element, "action"), "SCMP_ACT_NOTIFY"))
                        return err_say(err, -EINVAL,
                                       "the base profile has a listener, and a container has one at most");
                r = put_rest(join, element, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

int profile_join(const json_t *base, const struct profile_settings *desired, json_t **ret, struct err *err)
{
        bool allows_all = !strcmp(text_of(base, "defaultAction"), "SCMP_ACT_ALLOW");
        struct join join = { .rules = json_array(), .has_ioctl = false };
        json_t *made, *value;
        int r;

        r = put_base(&join, base, err);
        if (r < 0) {
                json_decref(join.rules);
                return r;
        }
        put_ioctl(join.rules, join.has_ioctl && !allows_all);
        put_mmap(join.rules, join.has_mmap && !allows_all);
        put_rule(join.rules, "remap_file_pages", "SCMP_ACT_NOTIFY", NULL, NULL);
        made = json_pack("{s:s, s:[s], s:s, s:s, s:o}", "defaultAction", text_of(base, "defaultAction"),
                         "architectures", "SCMP_ARCH_X86_64" /* P3 */, "listenerPath", desired->listener,
                         "listenerMetadata", desired->metadata, "syscalls", join.rules);
        if (!made)
                return err_set(err, -ENOMEM, "writing the profile");
        value = json_object_get(base, "defaultErrnoRet");
        if (value)
                (void)json_object_set(made, "defaultErrnoRet", value);
        if (desired->is_killable)
                (void)json_object_set_new(made, "flags", json_pack("[s]", "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"));
        *ret = made;
        return 0;
}
