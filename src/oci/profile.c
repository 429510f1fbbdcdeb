#include "oci/profile.h"

#include "base/cleanup.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>

static const char *const refused[] = {
#define REFUSED(name, because) #name,
#define MISSING(name, because)
#define ALLOWED_IF(name, argument, op, value, value_two)
#include "oci/calls.def"
#undef REFUSED
#undef MISSING
#undef ALLOWED_IF
};

static const char *const missing[] = {
#define REFUSED(name, because)
#define MISSING(name, because) #name,
#define ALLOWED_IF(name, argument, op, value, value_two)
#include "oci/calls.def"
#undef REFUSED
#undef MISSING
#undef ALLOWED_IF
};

static const struct condition {
        const char *name, *op;
        unsigned int argument;
        uint64_t value, value_two;
} conditions[] = {
#define REFUSED(name, because)
#define MISSING(name, because)
#define ALLOWED_IF(name, argument, op, value, value_two) { #name, "SCMP_CMP_" #op, argument, value, value_two },
#include "oci/calls.def"
#undef REFUSED
#undef MISSING
#undef ALLOWED_IF
};

static bool is_among(const char *name, const char *const *names, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!strcmp(name, names[i]))
                        return true;
        return false;
}

static bool is_conditional(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
                if (!strcmp(name, conditions[i].name))
                        return true;
        return false;
}

/* Borrows nothing: what is packed is in the rules, or nowhere. */
static int rules_append(json_t *rules, json_t *rule)
{
        return rule && json_array_append_new(rules, rule) == 0 ? 0 : -ENOMEM;
}

static json_t *names_of(const char *const *names, size_t n)
{
        json_t *list = json_array();

        for (size_t i = 0; i < n; i++)
                (void)json_array_append_new(list, json_string(names[i]));
        return list;
}

static json_t *argument_of(unsigned int index, uint64_t value, uint64_t value_two, const char *op)
{
        return json_pack("{s:i, s:I, s:I, s:s}", "index", (int)index, "value", (json_int_t)value, "valueTwo",
                         (json_int_t)value_two, "op", op);
}

/* Every call that libseccomp has a name for and no row does. */
static json_t *allowed_names(void)
{
        json_t *list = json_array();

        for (int nr = 0; nr <= CALL_LAST; nr++) {
                _cleanup_(freep) char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, nr);

                if (name && !is_among(name, refused, ARRAY_SIZE(refused)) &&
                    !is_among(name, missing, ARRAY_SIZE(missing)) && !is_conditional(name))
                        (void)json_array_append_new(list, json_string(name));
        }
        return list;
}

json_t *profile_default(void)
{
        json_t *rules = json_array();
        int r;

        r = rules_append(rules, json_pack("{s:o, s:s}", "names", allowed_names(), "action", "SCMP_ACT_ALLOW"));
        for (size_t i = 0; i < ARRAY_SIZE(conditions) && r == 0; i++) {
                const struct condition *c = &conditions[i];

                r = rules_append(rules, json_pack("{s:[s], s:s, s:[o]}", "names", c->name, "action", "SCMP_ACT_ALLOW",
                                                  "args", argument_of(c->argument, c->value, c->value_two, c->op)));
        }
        if (r == 0)
                r = rules_append(rules, json_pack("{s:o, s:s, s:i}", "names", names_of(refused, ARRAY_SIZE(refused)),
                                                  "action", "SCMP_ACT_ERRNO", "errnoRet", EPERM));
        if (r == 0)
                r = rules_append(rules, json_pack("{s:o, s:s, s:i}", "names", names_of(missing, ARRAY_SIZE(missing)),
                                                  "action", "SCMP_ACT_ERRNO", "errnoRet", ENOSYS));
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
