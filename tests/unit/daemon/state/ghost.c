/* SPDX-License-Identifier: Apache-2.0 */
/* Which tenant is one that kubelet forgot before it was started, on a clock of the test's. */
#include "unit.h"

#include "base/cleanup.h"
#include "daemon/state/ghost.h"

#include <string.h>

#define SEC NSEC_PER_SEC

static struct ghost ghost;
static nsec now;

static int set_up(void **state)
{
        (void)state;
        ghost = (struct ghost){ 0 };
        now = 1000 * SEC;
        return 0;
}

/* Seconds pass in which it is asked each second and reported every `every`; 0: not at all. True: due in the last. */
static bool pass(unsigned int seconds, unsigned int every, bool has_allocation)
{
        static nsec reported_at;
        bool is_due = false;

        if (now == 1000 * SEC)
                reported_at = 0;
        for (unsigned int i = 0; i < seconds; i++, now += SEC) {
                if (every && i % every == 0)
                        reported_at = now;
                is_due = ghost_is_due(&ghost, &(struct ghost_view){ .now = now,
                                                                    .reported_at = reported_at,
                                                                    .has_allocation = has_allocation });
        }
        return is_due;
}

static void it_is_due_when_nothing_was_allocated_to_it_for_25_s_of_reports(void **state)
{
        (void)state;
        assert_false(pass(100, 10, true));
        assert_false(pass(25, 10, false));
        assert_true(pass(1, 1, false));
}

static void an_allocation_that_comes_back_begins_the_time_anew(void **state)
{
        (void)state;
        assert_false(pass(24, 10, false));
        assert_false(pass(1, 10, true));
        assert_false(pass(25, 10, false));
        assert_true(pass(1, 1, false));
}

static void without_a_report_nobody_is_due(void **state)
{
        (void)state;
        assert_false(pass(1000, 0, false));
}

static void a_plugin_that_dies_ends_nobody(void **state)
{
        (void)state;
        assert_false(pass(1, 1, false)); /* its only report */
        assert_false(pass(14, 0, false));
        assert_false(pass(100, 0, false));
        assert_false(pass(25, 10, false)); /* the next one: time begins anew */
        assert_true(pass(1, 1, false));
}

static void it_is_looked_at_every_5_s_and_never_again_once_it_was_started(void **state)
{
        unsigned int n = 0;

        (void)state;
        (void)pass(25, 10, false);
        for (unsigned int i = 0; i < 20; i++)
                if (pass(1, 1, false)) {
                        ghost.looked_at = now - SEC;
                        n++;
                }
        assert_int_equal(n, 4);
        ghost.is_none = true;
        assert_false(pass(100, 10, false));
}

static void a_process_is_the_container_s_by_its_control_group(void **state)
{
        static const char id[] = "0f3c7ab1", *const of[] = {
                "0::/0f3c7ab1\n",
                "12:memory:/kubepods/pod1/0f3c7ab1\n1:name=systemd:/kubepods/pod1/0f3c7ab1\n",
                "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-0f3c7ab1.scope\n",
                "0::/../../kubepods/pod1/0f3c7ab1/below\n",
                "0::/kubepods/crio-0f3c7ab1\n",
        }, *const others[] = {
                "", "0::/\n", "0::/0f3c7ab\n", "0::/0f3c7ab12\n", "0::/a0f3c7ab1\n", "0::/0f3c7ab1.slice\n",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(of); i++)
                assert_true(ghost_is_of(&(struct ghost_process){ .cgroup = of[i] }, id));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                assert_false(ghost_is_of(&(struct ghost_process){ .cgroup = others[i] }, id));
        assert_false(ghost_is_of(&(struct ghost_process){ .cgroup = of[0] }, ""));
}

#define PROCESS(link, name)                                                                                            \
        {                                                                                                              \
                .program = (link), .comm = (name)                                                                      \
        }

static void only_the_runtime_s_own_stage_was_never_started(void **state)
{
        static const struct ghost_process stages[] = {
                PROCESS("/memfd:runc_cloned:/proc/self/exe (deleted)", "runc:[2:INIT]\n"),
                PROCESS("/usr/sbin/runc", "runc:[2:INIT]\n"),
                PROCESS("/", "runc:[2:INIT]\n"),
        }, programs[] = {
                PROCESS("", "runc:[2:INIT]\n"), /* unreadable */
                PROCESS("/usr/sbin/runc", ""),
                PROCESS("/bin/sh", "runc:[2:INIT]\n"),
                PROCESS("/usr/sbin/runc", "runc\n"),
                PROCESS("/usr/sbin/runc", "runc:[2:INIT"),
                PROCESS("/usr/sbin/runc", "runc:[1:CHILD]\n"),
                PROCESS("/", "sh\n"),
                PROCESS("/usr/bin/crun", "crun\n"),
                PROCESS("/usr/bin/python3", "python3\n"),
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
                assert_true(ghost_is_unstarted(&stages[i]));
        for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
                assert_false(ghost_is_unstarted(&programs[i]));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(it_is_due_when_nothing_was_allocated_to_it_for_25_s_of_reports, set_up),
                cmocka_unit_test_setup(an_allocation_that_comes_back_begins_the_time_anew, set_up),
                cmocka_unit_test_setup(without_a_report_nobody_is_due, set_up),
                cmocka_unit_test_setup(a_plugin_that_dies_ends_nobody, set_up),
                cmocka_unit_test_setup(it_is_looked_at_every_5_s_and_never_again_once_it_was_started, set_up),
                cmocka_unit_test(a_process_is_the_container_s_by_its_control_group),
                cmocka_unit_test(only_the_runtime_s_own_stage_was_never_started),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
