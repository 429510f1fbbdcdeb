/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "doctor/findings.h"
#include "gpu/health.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const struct finding *only(const struct findings *findings)
{
        assert_int_equal(findings->n, 1);
        return &findings->items[0];
}

static enum finding_status ptrace_status(int yama, bool is_root, bool has_sys_ptrace)
{
        struct findings findings = { 0 };

        findings_judge_ptrace(&findings, yama, is_root, has_sys_ptrace);
        return only(&findings)->status;
}

static void yama_level_one_lets_a_parent_read_its_child(void **state)
{
        (void)state;
        assert_int_equal(ptrace_status(-1, false, false), FINDING_OK);
        assert_int_equal(ptrace_status(0, false, false), FINDING_OK);
        assert_int_equal(ptrace_status(1, false, false), FINDING_OK);
        assert_int_equal(ptrace_status(2, false, false), FINDING_MISSING);
        assert_int_equal(ptrace_status(2, true, true), FINDING_OK);
        assert_int_equal(ptrace_status(3, true, true), FINDING_MISSING);
}

static void root_needs_the_capability_and_a_user_does_not(void **state)
{
        (void)state;
        assert_int_equal(ptrace_status(-1, true, false), FINDING_MISSING);
        assert_int_equal(ptrace_status(-1, true, true), FINDING_OK);
        assert_int_equal(ptrace_status(-1, false, false), FINDING_OK);
}

static void a_second_listener_is_reported_as_such(void **state)
{
        struct findings findings = { 0 };

        (void)state;
        findings_judge_listener(&findings, EBUSY);
        assert_int_equal(only(&findings)->status, FINDING_MISSING);
        assert_non_null(strstr(only(&findings)->text, "already"));
}

static void an_older_kernel_is_slower_but_can_run_tenants(void **state)
{
        struct findings findings = { 0 };

        (void)state;
        findings_judge_wake_up(&findings, EINVAL, "6.1.0-18-amd64");
        assert_int_equal(only(&findings)->status, FINDING_LIMITED);
        assert_non_null(strstr(only(&findings)->text, "6.1.0-18-amd64"));
        assert_true(findings_can_run(&findings));
}

static void a_call_that_fails_says_why(void **state)
{
        struct findings findings = { 0 };

        (void)state;
        findings_judge_call(&findings, "files", "kcmp with a child", ENOSYS);
        assert_int_equal(only(&findings)->status, FINDING_MISSING);
        assert_string_equal(only(&findings)->text, "kcmp with a child: Function not implemented");
        assert_non_null(strstr(only(&findings)->next, "newer"));
        assert_false(findings_can_run(&findings));
}

static void tests_built_into_uvm_are_a_limit(void **state)
{
        struct findings off = { 0 }, on = { 0 };

        (void)state;
        findings_judge_uvm(&off, 'N', '0');
        assert_int_equal(only(&off)->status, FINDING_OK);
        findings_judge_uvm(&on, 'N', '1');
        assert_int_equal(only(&on)->status, FINDING_LIMITED);
}

static void nodes_that_tenants_do_not_need_are_named(void **state)
{
        struct findings none = { 0 }, some = { 0 };

        (void)state;
        findings_judge_nodes(&none, "");
        assert_int_equal(only(&none)->status, FINDING_OK);
        findings_judge_nodes(&some, "/dev/nvidia-modeset /dev/dri/card1");
        assert_int_equal(only(&some)->status, FINDING_LIMITED);
        assert_non_null(strstr(only(&some)->text, "/dev/dri/card1"));
}

static void all_known_releases_fit_into_a_next_step(void **state)
{
        struct findings findings = { 0 };
        char releases[512], little[16];

        (void)state;
        findings_releases(releases, sizeof(releases));
        assert_memory_equal(releases, "525.53 to 525.147.05, ", 22);
        assert_true(strlen(releases) < sizeof(releases) - 1);
        findings_put(&findings, "abi", FINDING_MISSING, "not known");
        findings_next(&findings, "use a known release: %s", releases);
        assert_string_equal(only(&findings)->next + strlen("use a known release: "), releases);
        findings_releases(little, sizeof(little));
        assert_string_equal(little, "525.53 to 525.1");
}

static void an_unknown_release_is_told_what_was_read_of_its_branch(void **state)
{
        struct findings near = { 0 }, new = { 0 }, none = { 0 };

        (void)state;
        findings_judge_release(&near, "580.90.01");
        assert_int_equal(only(&near)->status, FINDING_MISSING);
        assert_non_null(strstr(only(&near)->text, "of branch 580 were read: 580.65.06 to 580.82.09, 580.95.05 to "));
        assert_null(strstr(only(&near)->text, "575"));
        assert_non_null(strstr(only(&near)->next, "595.45.04"));
        assert_non_null(strstr(only(&near)->next, "; or add this one: HACKING.md"));
        findings_judge_release(&new, "999.10");
        assert_non_null(strstr(only(&new)->text, "'999.10'"));
        assert_non_null(strstr(only(&new)->text, "of its branch nothing was read"));
        findings_judge_release(&none, "unreadable");
        assert_non_null(strstr(only(&none)->text, "of its branch nothing was read"));
}

static void findings_beyond_the_limit_are_dropped(void **state)
{
        static struct findings findings;

        (void)state;
        for (int i = 0; i < FINDINGS_MAX + 5; i++)
                findings_put(&findings, "card", FINDING_OK, "%d", i);
        assert_int_equal(findings.n, FINDINGS_MAX);
        assert_string_equal(findings.items[FINDINGS_MAX - 1].text, "127");
}

static void the_text_ends_with_the_verdict(void **state)
{
        struct findings findings = { 0 };
        char *text = NULL;
        size_t size;
        FILE *to = open_memstream(&text, &size);

        (void)state;
        findings_put(&findings, "driver", FINDING_MISSING, "no NVIDIA driver is loaded");
        findings_next(&findings, "load one");
        findings_text(to, &findings);
        (void)fclose(to);
        assert_string_equal(text, "missing  driver       no NVIDIA driver is loaded\n"
                                  "                      next: load one\n"
                                  "No tenant can run here: see what is missing above.\n");
        free(text);
}

static void json_says_the_same(void **state)
{
        struct findings findings = { 0 };
        char *text = NULL;
        size_t size;
        FILE *to = open_memstream(&text, &size);
        json_t *root, *list;

        (void)state;
        findings_put(&findings, "driver", FINDING_OK, "580.159.04");
        findings_judge_call(&findings, "files", "kcmp with a child", ENOSYS);
        assert_int_equal(findings_json(to, &findings), 0);
        (void)fclose(to);
        root = json_loads(text, 0, NULL);
        list = json_object_get(root, "findings");
        assert_true(json_is_false(json_object_get(root, "can_run")));
        assert_int_equal(json_array_size(list), 2);
        assert_null(json_object_get(json_array_get(list, 0), "next"));
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "status")), "missing");
        json_decref(root);
        free(text);
}

/* Two kinds of NVML tell different figures; none is made up. */
static void a_device_is_judged_by_what_it_tells(void **state)
{
        struct gpu_figures figures = { 0 };
        struct findings findings = { 0 };

        (void)state;
        findings_judge_health(&findings, 0, NULL);
        findings_judge_health(&findings, 0, &figures);
        assert_int_equal(findings.items[0].status, FINDING_UNKNOWN);
        assert_int_equal(findings.items[1].status, FINDING_UNKNOWN);
        figures.known = 1u << GPU_FIGURE_temperature_celsius;
        figures.of[GPU_FIGURE_temperature_celsius] = 31;
        figures.of[GPU_FIGURE_row_remap_failed] = 1; /* not told */
        findings_judge_health(&findings, 3, &figures);
        assert_int_equal(findings.items[2].status, FINDING_OK);
        assert_string_equal(findings.items[2].text, "device 3: 31 C");
        figures.known |= 1u << GPU_FIGURE_row_remap_failed;
        findings_judge_health(&findings, 3, &figures);
        assert_int_equal(findings.items[3].status, FINDING_LIMITED);
        assert_non_null(strstr(findings.items[3].next, "replaced"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(yama_level_one_lets_a_parent_read_its_child),
                cmocka_unit_test(root_needs_the_capability_and_a_user_does_not),
                cmocka_unit_test(a_second_listener_is_reported_as_such),
                cmocka_unit_test(an_older_kernel_is_slower_but_can_run_tenants),
                cmocka_unit_test(a_call_that_fails_says_why),
                cmocka_unit_test(tests_built_into_uvm_are_a_limit),
                cmocka_unit_test(nodes_that_tenants_do_not_need_are_named),
                cmocka_unit_test(all_known_releases_fit_into_a_next_step),
                cmocka_unit_test(an_unknown_release_is_told_what_was_read_of_its_branch),
                cmocka_unit_test(findings_beyond_the_limit_are_dropped),
                cmocka_unit_test(the_text_ends_with_the_verdict),
                cmocka_unit_test(json_says_the_same),
                cmocka_unit_test(a_device_is_judged_by_what_it_tells),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
