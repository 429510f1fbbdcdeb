/* SPDX-License-Identifier: Apache-2.0 */
/* The names of policies and classes, as options and messages have them. */
#include "turns/turns.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

static const char *const policies[TURNS_N_POLICIES] = { "auto", "slices", "turns", "strict", "none" };
static const char *const classes[] = { "normal", "latency", "batch" };

int turns_policy_parse(const char *text, enum turns_policy *ret)
{
        for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
                if (!strcmp(text, policies[i])) {
                        *ret = (enum turns_policy)i;
                        return 0;
                }
        return -EINVAL;
}

const char *turns_policy_name(enum turns_policy policy)
{
        return (size_t)policy < ARRAY_SIZE(policies) ? policies[policy] : "?";
}

int turns_class_parse(const char *text, enum turns_class *ret)
{
        for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
                if (!strcmp(text, classes[i])) {
                        *ret = (enum turns_class)i;
                        return 0;
                }
        return -EINVAL;
}

const char *turns_class_name(enum turns_class class)
{
        return (size_t) class < ARRAY_SIZE(classes) ? classes[class] : "?";
}
