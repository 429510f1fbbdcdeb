/* SPDX-License-Identifier: Apache-2.0 */
/* The profile that a runtime loads, compared with the filter that the gate loads: both programs are run here. */
#include "rm/releases.h"

#include "base/err.h"
#include "gate/policy/caught.h"
#include "gate/policy/filter.h"
#include "oci/profile.h"
#include "oci/program.h"

#include <errno.h>
#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static const struct profile_settings desired = { .listener = "/run/sublet/seccomp.sock", .metadata = "sublet/4 test" };
static struct err err;

static json_t *join(const json_t *base)
{
        json_t *joined = NULL;

        err.text[0] = '\0';
        if (profile_join(base, &desired, &joined, &err) < 0)
                fail_msg("%s", err.text);
        return joined;
}

static json_t *default_joined(void)
{
        json_t *base = profile_default(), *joined;

        assert_non_null(base);
        joined = join(base);
        json_decref(base);
        return joined;
}

static struct sock_fprog compile(const json_t *profile)
{
        struct sock_fprog program = { 0 };

        if (program_make(profile, &program, &err) < 0)
                fail_msg("%s", err.text);
        return program;
}

static uint32_t ask(const struct sock_fprog *program, uint32_t arch, int nr, uint64_t arg1, uint64_t arg3,
                    uint64_t arg5)
{
        struct seccomp_data call = { .nr = nr, .arch = arch, .args = { 7, arg1, 0x7f0000001000, arg3, 9, arg5 } };

        return program_run(program, &call);
}

static uint32_t simple(const struct sock_fprog *program, const char *name, uint64_t arg0)
{
        static const struct {
                const char *name;
                int nr;
        } known[] = { { "mount", SYS_mount },   { "clone", SYS_clone },
                      { "clone3", SYS_clone3 }, { "personality", SYS_personality },
                      { "socket", SYS_socket }, { "read", SYS_read },
                      { "bpf", SYS_bpf },       { "ptrace", SYS_ptrace } };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (!strcmp(name, known[i].name)) {
                        struct seccomp_data call = { .nr = known[i].nr, .arch = AUDIT_ARCH_X86_64, .args = { arg0 } };

                        return program_run(program, &call);
                }
        fail_msg("%s", name);
        return 0;
}

static uint64_t random_state = 20261122;

static uint64_t random64(void)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

/* A request near to what is caught, or any. */
static uint64_t random_request(const struct caught *caught, size_t n)
{
        uint64_t any = random64();
        const struct caught *near = &caught[any % n];

        switch (any >> 60 & 3) {
        case 0:
                return random64();
        case 1:
                return (near->value | (random64() & ~(uint64_t)near->mask)) ^ 1ull << (any >> 32 & 31);
        case 2:
                return random64() & 0xc000ffff; /* without size */
        default:
                return near->value | (random64() & ~(uint64_t)near->mask);
        }
}

/* P2 */
static void the_profile_catches_what_the_gate_does(void **state)
{
        json_t *profile = default_joined();
        struct sock_fprog ours, theirs = compile(profile);
        struct caught caught[CAUGHT_MAX];
        size_t n = caught_requests(caught), n_caught = 0;

        (void)state;
        assert_true(n > 50 && n < CAUGHT_MAX / 2);
        assert_int_equal(filter_build(&ours), 0);
        for (size_t k = 0; k < 20000; k++) {
                uint64_t request = random_request(caught, n);
                uint32_t answer = ask(&ours, AUDIT_ARCH_X86_64, SYS_ioctl, request, 0, 0);

                n_caught += answer == SECCOMP_RET_USER_NOTIF;
                if (ask(&theirs, AUDIT_ARCH_X86_64, SYS_ioctl, request, 0, 0) != answer)
                        fail_msg("request 0x%llx", (unsigned long long)request);
        }
        assert_true(n_caught > 4000 && n_caught < 19900);
        for (size_t k = 0; k < 20000; k++) {
                uint64_t flags = random64() >> (k % 2 ? 32 : 58), offset = random64() >> k % 64;

                if (ask(&theirs, AUDIT_ARCH_X86_64, SYS_mmap, 4096, flags, offset) !=
                    ask(&ours, AUDIT_ARCH_X86_64, SYS_mmap, 4096, flags, offset))
                        fail_msg("mmap 0x%llx 0x%llx", (unsigned long long)flags, (unsigned long long)offset);
        }
        assert_int_equal(ask(&theirs, AUDIT_ARCH_X86_64, SYS_remap_file_pages, 4096, 0, 0), SECCOMP_RET_USER_NOTIF);
        assert_int_equal(ask(&ours, AUDIT_ARCH_X86_64, SYS_remap_file_pages, 4096, 0, 0), SECCOMP_RET_USER_NOTIF);
        assert_int_equal(profile_check(profile, &err), 0);
        free(ours.filter);
        free(theirs.filter);
        json_decref(profile);
}

static void the_order_of_its_rules_does_not_matter(void **state)
{
        json_t *profile = default_joined(), *rules = json_object_get(profile, "syscalls"), *last;

        (void)state;
        for (size_t round = 0; round < 4; round++) {
                for (size_t i = json_array_size(rules); i-- > 1;) {
                        size_t k = random64() % (i + 1);

                        last = json_incref(json_array_get(rules, i));
                        (void)json_array_set(rules, i, json_array_get(rules, k));
                        (void)json_array_set_new(rules, k, last);
                }
                if (profile_check(profile, &err) < 0)
                        fail_msg("%s", err.text);
        }
        json_decref(profile);
}

/* P4: a libseccomp that swallows rules would be seen. */
static void a_profile_that_catches_less_is_not_handed_out(void **state)
{
        json_t *profile = default_joined(), *rules = json_object_get(profile, "syscalls"), *rule;
        size_t n = json_array_size(rules);

        (void)state;
        rule = json_incref(json_array_get(rules, n - 20));
        assert_string_equal(json_string_value(json_object_get(rule, "action")), "SCMP_ACT_NOTIFY");
        (void)json_array_remove(rules, n - 20);
        assert_int_equal(profile_check(profile, &err), -EINVAL);
        assert_non_null(strstr(err.text, "libseccomp"));
        (void)json_array_append_new(rules, rule);
        assert_int_equal(profile_check(profile, &err), 0);
        (void)json_array_append_new(rules, json_pack("{s:[s], s:s}", "names", "ioctl", "action", "SCMP_ACT_ALLOW"));
        assert_int_equal(profile_check(profile, &err), -EINVAL);
        json_decref(profile);
}

/* P3 */
static void other_tables_of_calls_are_fatal(void **state)
{
        json_t *profile = default_joined();
        struct sock_fprog program = compile(profile);

        (void)state;
        assert_int_equal(ask(&program, AUDIT_ARCH_I386, 54, 0xc020462a, 0, 0), SECCOMP_RET_KILL_THREAD);
        assert_int_equal(ask(&program, AUDIT_ARCH_X86_64, 0x40000000 | 514, 0xc020462a, 0, 0), SECCOMP_RET_KILL_THREAD);
        free(program.filter);
        json_decref(profile);
}

static void a_container_does_what_it_may_by_default_and_no_more(void **state)
{
        const uint32_t refused = SECCOMP_RET_ERRNO | EPERM, missing = SECCOMP_RET_ERRNO | ENOSYS;
        json_t *profile = default_joined();
        struct sock_fprog program = compile(profile);

        (void)state;
        assert_int_equal(simple(&program, "read", 0), SECCOMP_RET_ALLOW);
        assert_int_equal(simple(&program, "ptrace", 0), SECCOMP_RET_ALLOW);
        assert_int_equal(simple(&program, "mount", 0), refused);
        assert_int_equal(simple(&program, "bpf", 0), refused);
        assert_int_equal(simple(&program, "clone", 0x11), SECCOMP_RET_ALLOW);
        assert_int_equal(simple(&program, "clone", 0x10000000), missing); /* a user namespace */
        assert_int_equal(simple(&program, "clone3", 0), missing);
        assert_int_equal(simple(&program, "personality", 0x8), SECCOMP_RET_ALLOW);
        assert_int_equal(simple(&program, "personality", 0x40000), missing); /* no randomised addresses */
        assert_int_equal(simple(&program, "socket", 2), SECCOMP_RET_ALLOW);
        assert_int_equal(simple(&program, "socket", 40), missing);
        assert_int_equal(ask(&program, AUDIT_ARCH_X86_64, CALL_LAST + 1, 0, 0, 0), missing);
        assert_int_equal(ask(&program, AUDIT_ARCH_X86_64, SYS_ioctl, 0x5401, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_equal(ask(&program, AUDIT_ARCH_X86_64, SYS_ioctl, 0xc020462a, 0, 0), SECCOMP_RET_USER_NOTIF);
        free(program.filter);
        json_decref(profile);
}

static json_t *resolve(const char *text, const char *const *capabilities)
{
        json_t *base = json_loads(text, 0, NULL), *made = NULL;

        assert_non_null(base);
        err.text[0] = '\0';
        (void)profile_resolve(base, capabilities, &made, &err);
        json_decref(base);
        return made;
}

static const char conditional[] =
        "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":1,\"archMap\":[],\"syscalls\":["
        "{\"names\":[\"read\",\"ioctl\",\"mmap\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":null,\"comment\":\"x\"},"
        "{\"names\":[\"bpf\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"caps\":[\"CAP_BPF\"]}},"
        "{\"names\":[\"bpf\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1,\"excludes\":{\"caps\":[\"CAP_BPF\"]}},"
        "{\"names\":[\"sync_file_range2\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"arches\":[\"ppc64le\"]}},"
        "{\"names\":[\"ptrace\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"4.8\"}},"
        "{\"names\":[\"mount\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"99.0\"}},"
        "{\"name\":\"chroot\",\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"caps\":[\"CAP_SYS_CHROOT\"]}}]}";

static void a_base_with_conditions_is_resolved_for_this_container(void **state)
{
        static const char *const capabilities[] = { "CAP_BPF", NULL };
        json_t *base = resolve(conditional, NULL), *joined;
        struct sock_fprog program;

        (void)state;
        assert_non_null(base);
        assert_int_equal(json_array_size(json_object_get(base, "syscalls")), 4);
        joined = join(base);
        assert_int_equal(profile_check(joined, &err), 0);
        program = compile(joined);
        assert_int_equal(simple(&program, "bpf", 0), SECCOMP_RET_ERRNO | 1);
        assert_int_equal(simple(&program, "ptrace", 0), SECCOMP_RET_ALLOW);
        assert_int_equal(simple(&program, "mount", 0), SECCOMP_RET_ERRNO | 1);
        free(program.filter);
        json_decref(joined);
        json_decref(base);
        base = resolve(conditional, capabilities);
        assert_int_equal(json_array_size(json_object_get(base, "syscalls")), 3); /* with bpf, without chroot */
        json_decref(base);
}

static void a_base_that_cannot_be_joined_is_refused(void **state)
{
        static const struct {
                const char *text, *says;
        } cases[] = {
                { "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_"
                  "ALLOW\",\"args\":[{\"index\":1,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]}]}",
                  "a rule of its own for ioctl" },
                { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"mmap\"],\"action\":\"SCMP_ACT_"
                  "ERRNO\"}]}",
                  "a rule of its own for mmap" },
                { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"listenerPath\":\"/x\",\"syscalls\":[]}", "one at most" },
                { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"mkdir\"],\"action\":\"SCMP_ACT_"
                  "NOTIFY\"}]}",
                  "one at most" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *base = resolve(cases[i].text, NULL), *joined;

                assert_non_null(base);
                assert_int_equal(profile_join(base, &desired, &joined, &err), -EINVAL);
                assert_non_null(strstr(err.text, cases[i].says));
                json_decref(base);
        }
        assert_null(resolve("{}", NULL));
        assert_null(resolve("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{}]}", NULL));
        assert_null(resolve("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[5],\"action\":\"x\"}]}",
                            NULL));
}

static void a_base_that_no_program_starts_under_is_refused(void **state)
{
        json_t *base = resolve("{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":[\"read\"],\"action\":"
                               "\"SCMP_ACT_ALLOW\"}]}",
                               NULL),
               *joined = join(base);

        (void)state;
        assert_int_equal(profile_check(joined, &err), -EINVAL);
        assert_non_null(strstr(err.text, "no program would start"));
        json_decref(joined);
        json_decref(base);
}

/* What Debian ships for podman, where it is installed. */
static void the_base_of_this_machine_can_be_joined(void **state)
{
        json_t *file = json_load_file("/usr/share/containers/seccomp.json", 0, NULL), *base, *joined;

        (void)state;
        if (!file)
                skip();
        assert_int_equal(profile_resolve(file, NULL, &base, &err), 0);
        joined = join(base);
        if (profile_check(joined, &err) < 0)
                fail_msg("%s", err.text);
        json_decref(joined);
        json_decref(base);
        json_decref(file);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_profile_catches_what_the_gate_does),
                cmocka_unit_test(the_order_of_its_rules_does_not_matter),
                cmocka_unit_test(a_profile_that_catches_less_is_not_handed_out),
                cmocka_unit_test(other_tables_of_calls_are_fatal),
                cmocka_unit_test(a_container_does_what_it_may_by_default_and_no_more),
                cmocka_unit_test(a_base_with_conditions_is_resolved_for_this_container),
                cmocka_unit_test(a_base_that_cannot_be_joined_is_refused),
                cmocka_unit_test(a_base_that_no_program_starts_under_is_refused),
                cmocka_unit_test(the_base_of_this_machine_can_be_joined),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
