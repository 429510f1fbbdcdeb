/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "route/patience.h"

static void learn(struct patience *patience, int n, nsec expected, nsec took)
{
        for (int i = 0; i < n; i++)
                patience_learn(patience, expected, took);
}

static void nothing_is_overdue_where_nothing_is_known(void **state)
{
        struct patience patience = { 0 };

        (void)state;
        assert_int_equal(patience_limit(&patience, NSEC_PER_SEC), 0);
        learn(&patience, 31, NSEC_PER_SEC, NSEC_PER_SEC);
        assert_int_equal(patience_limit(&patience, NSEC_PER_SEC), 0);
        learn(&patience, 1, NSEC_PER_SEC, NSEC_PER_SEC);
        assert_true(patience_limit(&patience, NSEC_PER_SEC) > 0);
}

static void a_long_prompt_is_waited_for_longer(void **state)
{
        struct patience patience = { 0 };

        (void)state;
        learn(&patience, 100, NSEC_PER_SEC, NSEC_PER_SEC);
        assert_in_range(patience_limit(&patience, NSEC_PER_SEC), 3 * NSEC_PER_SEC, 8 * NSEC_PER_SEC);
        assert_in_range(patience_limit(&patience, 40 * NSEC_PER_SEC), 120 * NSEC_PER_SEC, 320 * NSEC_PER_SEC);
        assert_int_equal(patience_limit(&patience, 0), 2 * NSEC_PER_SEC);
}

static void a_replica_that_is_always_slow_is_not_late(void **state)
{
        struct patience patience = { 0 };

        (void)state;
        learn(&patience, 400, NSEC_PER_SEC, 10 * NSEC_PER_SEC);
        assert_true(patience_limit(&patience, NSEC_PER_SEC) > 30 * NSEC_PER_SEC);
}

static void what_was_given_up_makes_for_more_patience(void **state)
{
        struct patience patience = { 0 };
        nsec before;

        (void)state;
        learn(&patience, 2000, NSEC_PER_SEC, NSEC_PER_SEC);
        before = patience_limit(&patience, NSEC_PER_SEC);
        learn(&patience, 1, NSEC_PER_SEC, before);
        assert_int_equal(patience_limit(&patience, NSEC_PER_SEC), before); /* one of hundreds */
        learn(&patience, 20, NSEC_PER_SEC, before);
        assert_true(patience_limit(&patience, NSEC_PER_SEC) > 2 * before);
}

static void what_was_long_ago_is_forgotten(void **state)
{
        struct patience patience = { 0 };

        (void)state;
        learn(&patience, 500, NSEC_PER_SEC, 100 * NSEC_PER_SEC);
        learn(&patience, 5000, NSEC_PER_SEC, NSEC_PER_SEC);
        assert_true(patience_limit(&patience, NSEC_PER_SEC) < 10 * NSEC_PER_SEC);
        assert_true(patience.n < 600);
}

static void absurd_times_do_no_harm(void **state)
{
        struct patience patience = { 0 };

        (void)state;
        learn(&patience, 50, 0, -5);
        learn(&patience, 50, 3600 * NSEC_PER_SEC, 0);
        assert_int_equal(patience_limit(&patience, 0), 2 * NSEC_PER_SEC);
        learn(&patience, 600, 0, INT64_MAX);
        assert_true(patience_limit(&patience, 0) > 1000 * NSEC_PER_SEC);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_is_overdue_where_nothing_is_known),
                cmocka_unit_test(a_long_prompt_is_waited_for_longer),
                cmocka_unit_test(a_replica_that_is_always_slow_is_not_late),
                cmocka_unit_test(what_was_given_up_makes_for_more_patience),
                cmocka_unit_test(what_was_long_ago_is_forgotten),
                cmocka_unit_test(absurd_times_do_no_harm),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
