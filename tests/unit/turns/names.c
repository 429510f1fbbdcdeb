/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "turns/turns.h"

#include <errno.h>
#include <string.h>

static void every_policy_reads_back_as_it_is_written(void **state)
{
        (void)state;
        for (int i = 0; i < TURNS_N_POLICIES; i++) {
                enum turns_policy policy = TURNS_N_POLICIES;

                assert_int_equal(turns_policy_parse(turns_policy_name((enum turns_policy)i), &policy), 0);
                assert_int_equal(policy, i);
        }
}

static void every_class_reads_back_as_it_is_written(void **state)
{
        (void)state;
        for (int i = TURNS_NORMAL; i <= TURNS_BATCH; i++) {
                enum turns_class class = TURNS_NORMAL;

                assert_int_equal(turns_class_parse(turns_class_name((enum turns_class)i), &class), 0);
                assert_int_equal(class, i);
        }
}

static void an_unknown_name_is_refused_and_changes_nothing(void **state)
{
        static const char *const wrong[] = { "", "Auto", "turns ", "strictly", "?" };
        enum turns_policy policy = TURNS_POLICY_STRICT;
        enum turns_class class = TURNS_BATCH;

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                assert_int_equal(turns_policy_parse(wrong[i], &policy), -EINVAL);
                assert_int_equal(turns_class_parse(wrong[i], &class), -EINVAL);
        }
        assert_int_equal(policy, TURNS_POLICY_STRICT);
        assert_int_equal(class, TURNS_BATCH);
        assert_string_equal(turns_policy_name(TURNS_N_POLICIES), "?");
        assert_string_equal(turns_class_name((enum turns_class)7), "?");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_policy_reads_back_as_it_is_written),
                cmocka_unit_test(every_class_reads_back_as_it_is_written),
                cmocka_unit_test(an_unknown_name_is_refused_and_changes_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
