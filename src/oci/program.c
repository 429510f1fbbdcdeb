/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/program.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/filter.h"

#include <errno.h>
#include <seccomp.h>
#include <stdbool.h>
#include <string.h>

static void seccomp_releasep(scmp_filter_ctx *context)
{
        if (*context)
                seccomp_release(*context);
}

static int action_of(const json_t *object, const char *key, const char *number_key, uint32_t *ret)
{
        static const struct {
                const char *name;
                uint32_t action;
        } known[] = { { "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW },
                      { "SCMP_ACT_NOTIFY", SCMP_ACT_NOTIFY },
                      { "SCMP_ACT_LOG", SCMP_ACT_LOG },
                      { "SCMP_ACT_TRAP", SCMP_ACT_TRAP },
                      { "SCMP_ACT_KILL", SCMP_ACT_KILL },
                      { "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD },
                      { "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS } };
        const char *name = json_string_value(json_object_get(object, key));
        const json_t *number = json_object_get(object, number_key);
        uint32_t value = json_is_integer(number) ? (uint32_t)json_integer_value(number) & 0xffff : EPERM;

        if (name && !strcmp(name, "SCMP_ACT_ERRNO")) {
                *ret = SCMP_ACT_ERRNO(value);
                return 0;
        }
        if (name && !strcmp(name, "SCMP_ACT_TRACE")) {
                *ret = SCMP_ACT_TRACE(value);
                return 0;
        }
        for (size_t i = 0; name && i < ARRAY_SIZE(known); i++)
                if (!strcmp(name, known[i].name)) {
                        *ret = known[i].action;
                        return 0;
                }
        return -EINVAL;
}

static int comparison_of(const json_t *argument, struct scmp_arg_cmp *ret)
{
        static const struct {
                const char *name;
                enum scmp_compare op;
        } known[] = { { "SCMP_CMP_NE", SCMP_CMP_NE },
                      { "SCMP_CMP_LT", SCMP_CMP_LT },
                      { "SCMP_CMP_LE", SCMP_CMP_LE },
                      { "SCMP_CMP_EQ", SCMP_CMP_EQ },
                      { "SCMP_CMP_GE", SCMP_CMP_GE },
                      { "SCMP_CMP_GT", SCMP_CMP_GT },
                      { "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ } };
        const char *name = json_string_value(json_object_get(argument, "op"));

        for (size_t i = 0; name && i < ARRAY_SIZE(known); i++)
                if (!strcmp(name, known[i].name)) {
                        *ret = (struct scmp_arg_cmp){
                                .arg = (unsigned int)json_integer_value(json_object_get(argument, "index")),
                                .op = known[i].op,
                                .datum_a = (scmp_datum_t)json_integer_value(json_object_get(argument, "value")),
                                .datum_b = (scmp_datum_t)json_integer_value(json_object_get(argument, "valueTwo")),
                        };
                        return 0;
                }
        return -EINVAL;
}

/* If two conditions name one argument, each becomes a rule of its own, as in the runtimes. */
static int add_rule(scmp_filter_ctx context, uint32_t action, int nr, const json_t *arguments)
{
        struct scmp_arg_cmp comparisons[6];
        unsigned int seen = 0, n = 0;
        bool is_twice = false;
        const json_t *argument;
        size_t i;
        int r = 0;

        if (json_array_size(arguments) > ARRAY_SIZE(comparisons))
                return -EINVAL;
        json_array_foreach (arguments, i, argument) {
                if (comparison_of(argument, &comparisons[n]) < 0 || comparisons[n].arg >= ARRAY_SIZE(comparisons))
                        return -EINVAL;
                is_twice |= (seen >> comparisons[n].arg & 1) != 0;
                seen |= 1u << comparisons[n++].arg;
        }
        if (!is_twice)
                return seccomp_rule_add_array(context, action, nr, n, comparisons);
        for (i = 0; i < n && r == 0; i++)
                r = seccomp_rule_add_array(context, action, nr, 1, &comparisons[i]);
        return r;
}

static int add_rules(scmp_filter_ctx context, const json_t *profile, uint32_t otherwise, struct err *err)
{
        const json_t *rule, *name;
        uint32_t action;
        size_t i, k;

        json_array_foreach (json_object_get(profile, "syscalls"), i, rule) {
                if (action_of(rule, "action", "errnoRet", &action) < 0)
                        return err_say(err, -EINVAL, "rule %zu: an action that is none", i + 1);
                if (action == otherwise)
                        continue;
                json_array_foreach (json_object_get(rule, "names"), k, name) {
                        int nr = seccomp_syscall_resolve_name(json_string_value(name)), r;

                        if (nr == __NR_SCMP_ERROR)
                                continue; /* another architecture's, or unknown to this libseccomp */
                        r = add_rule(context, action, nr, json_object_get(rule, "args"));
                        if (r < 0 && r != -EEXIST)
                                return err_set(err, -EINVAL, "rule %zu, %s: libseccomp %d", i + 1,
                                               json_string_value(name), r);
                }
        }
        return 0;
}

int program_make(const json_t *profile, struct sock_fprog *ret, struct err *err)
{
        _cleanup_(seccomp_releasep) scmp_filter_ctx context = NULL;
        uint32_t otherwise;
        int r;

        if (action_of(profile, "defaultAction", "defaultErrnoRet", &otherwise) < 0)
                return err_say(err, -EINVAL, "the default action is none");
        context = seccomp_init(otherwise);
        if (!context)
                return err_set(err, -ENOMEM, "making a filter");
        r = add_rules(context, profile, otherwise, err);
        if (r < 0)
                return r;
        r = filter_export(context, ret);
        return r < 0 ? err_set(err, r, "making a filter") : 0;
}

/* Only the instructions that libseccomp emits. */
uint32_t program_run(const struct sock_fprog *program, const struct seccomp_data *call)
{
        uint32_t a = 0;

        for (size_t pc = 0; pc < program->len; pc++) {
                const struct sock_filter *i = &program->filter[pc];
                bool is = false;

                switch (i->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        if (i->k > sizeof(*call) - sizeof(a))
                                return SECCOMP_RET_KILL_PROCESS;
                        memcpy(&a, (const uint8_t *)call + i->k, sizeof(a));
                        continue;
                case BPF_ALU | BPF_AND | BPF_K:
                        a &= i->k;
                        continue;
                case BPF_JMP | BPF_JA:
                        pc += i->k;
                        continue;
                case BPF_JMP | BPF_JEQ | BPF_K:
                        is = a == i->k;
                        break;
                case BPF_JMP | BPF_JGT | BPF_K:
                        is = a > i->k;
                        break;
                case BPF_JMP | BPF_JGE | BPF_K:
                        is = a >= i->k;
                        break;
                case BPF_RET | BPF_K:
                        return i->k;
                default:
                        return SECCOMP_RET_KILL_PROCESS;
                }
                pc += is ? i->jt : i->jf;
        }
        return SECCOMP_RET_KILL_PROCESS;
}
