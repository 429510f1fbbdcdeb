/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gate/policy/budget.h"

#define SECOND NSEC_PER_SEC

static void one_processor_may_be_used_for_ever(void **state)
{
        struct budget budget = { 0 };

        (void)state;
        for (nsec i = 1; i < 10000; i++)
                assert_false(budget_count(&budget, i * SECOND, i * SECOND + 3 * SECOND));
}

static void more_may_be_used_for_a_burst_and_no_longer(void **state)
{
        struct budget budget = { 0 };

        (void)state;
        assert_false(budget_count(&budget, 100 * SECOND, 0));
        for (nsec i = 1; i <= 5; i++)
                assert_false(budget_count(&budget, (100 + i) * SECOND, 2 * i * SECOND));
        assert_true(budget_count(&budget, 106 * SECOND, 12 * SECOND));
        assert_false(budget_count(&budget, 107 * SECOND, 12 * SECOND)); /* a second of rest */
        assert_true(budget_count(&budget, 108 * SECOND, 15 * SECOND));
}

static void rest_fills_it_and_debts_are_bounded(void **state)
{
        struct budget budget = { 0 };

        (void)state;
        assert_false(budget_count(&budget, SECOND, 0));
        assert_true(budget_count(&budget, 2 * SECOND, 1000 * SECOND));
        assert_true(budget_count(&budget, 6 * SECOND, 1000 * SECOND));
        assert_false(budget_count(&budget, 8 * SECOND, 1000 * SECOND));
        assert_false(budget_count(&budget, 1000 * SECOND, 1000 * SECOND));
        assert_false(budget_count(&budget, 1001 * SECOND, 1006 * SECOND));
        assert_true(budget_count(&budget, 1001 * SECOND, 1008 * SECOND)); /* no more than a burst was kept */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_processor_may_be_used_for_ever),
                cmocka_unit_test(more_may_be_used_for_a_burst_and_no_longer),
                cmocka_unit_test(rest_fills_it_and_debts_are_bounded),
        };

        return cmocka_run_group_tests_name("gate/policy/budget", tests, NULL, NULL);
}
