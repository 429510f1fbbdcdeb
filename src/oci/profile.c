/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/profile.h"

#include "base/cleanup.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>

static const struct call {
        const char *name;
        enum { IS_REFUSED, IS_MISSING, IS_CONDITIONAL } kind;
        const char *op;
        unsigned int argument;
        uint64_t value, value_two;
} calls[] = {
#define REFUSED(name, because) { #name, IS_REFUSED, NULL, 0, 0, 0 },
#define MISSING(name, because) { #name, IS_MISSING, NULL, 0, 0, 0 },
#define ALLOWED_IF(name, argument, op, value, value_two)                                                               \
        { #name, IS_CONDITIONAL, "SCMP_CMP_" #op, argument, value, value_two },
#include "oci/calls.def"
#undef REFUSED
#undef MISSING
#undef ALLOWED_IF
};

static bool has_row(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                if (!strcmp(name, calls[i].name))
                        return true;
        return false;
}

/* Takes the reference to `rule`, also if it fails. */
static int rules_append(json_t *rules, json_t *rule)
{
        return rule && json_array_append_new(rules, rule) == 0 ? 0 : -ENOMEM;
}

/* The calls of that kind, failing with that error. */
static json_t *failing(int kind, int error)
{
        json_t *names = json_array();

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                if ((int)calls[i].kind == kind)
                        (void)json_array_append_new(names, json_string(calls[i].name));
        return json_pack("{s:o, s:s, s:i}", "names", names, "action", "SCMP_ACT_ERRNO", "errnoRet", error);
}

json_t *profile_condition(unsigned int index, uint64_t value, uint64_t value_two, const char *op)
{
        return json_pack("{s:i, s:I, s:I, s:s}", "index", (int)index, "value", (json_int_t)value, "valueTwo",
                         (json_int_t)value_two, "op", op);
}

/* Every call that libseccomp has a name for and calls.def has no row for. */
static json_t *allowed_names(void)
{
        json_t *list = json_array();

        for (int nr = 0; nr <= CALL_LAST; nr++) {
                _cleanup_(freep) char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, nr);

                if (name && !has_row(name))
                        (void)json_array_append_new(list, json_string(name));
        }
        return list;
}

json_t *profile_default(void)
{
        json_t *rules = json_array();
        int r;

        r = rules_append(rules, json_pack("{s:o, s:s}", "names", allowed_names(), "action", "SCMP_ACT_ALLOW"));
        for (size_t i = 0; i < ARRAY_SIZE(calls) && r == 0; i++) {
                const struct call *c = &calls[i];

                if (c->kind == IS_CONDITIONAL)
                        r = rules_append(rules,
                                         json_pack("{s:[s], s:s, s:[o]}", "names", c->name, "action", "SCMP_ACT_ALLOW",
                                                   "args",
                                                   profile_condition(c->argument, c->value, c->value_two, c->op)));
        }
        if (r == 0)
                r = rules_append(rules, failing(IS_REFUSED, EPERM));
        if (r == 0)
                r = rules_append(rules, failing(IS_MISSING, ENOSYS));
        if (r == 0)
                return json_pack("{s:s, s:i, s:o}", "defaultAction", "SCMP_ACT_ERRNO", "defaultErrnoRet", ENOSYS,
                                 "syscalls", rules);
        json_decref(rules);
        return NULL;
}

void profile_sign(const char *release, char *metadata)
{
        (void)snprintf(metadata, PROFILE_METADATA, "sublet/%d %s", PROFILE_FORM, release);
}

bool profile_is_for(const char *metadata, const char *release)
{
        char signed_for[PROFILE_METADATA];

        profile_sign(release, signed_for);
        return !strcmp(metadata, signed_for);
}
