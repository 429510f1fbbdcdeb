/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "route/request/hints.h"

#include <string.h>

#define MOST (60 * NSEC_PER_SEC)

static nsec deadline(const char *text)
{
        nsec span = -1;

        return hints_deadline(text, strlen(text), MOST, &span) ? span : -1;
}

static void a_shorter_deadline_counts(void **state)
{
        (void)state;
        assert_int_equal(deadline("1"), NSEC_PER_MSEC);
        assert_int_equal(deadline("0059999"), 59999 * NSEC_PER_MSEC);
        assert_int_equal(deadline("60001"), MOST);
        assert_int_equal(deadline("0"), -1);
        assert_int_equal(deadline(""), -1);
        assert_int_equal(deadline("5s"), -1);
        assert_int_equal(deadline("-5"), -1);
}

static void a_deadline_beyond_any_number_is_the_longest(void **state)
{
        nsec span;

        (void)state;
        assert_int_equal(deadline("9223372036854775807"), MOST);
        assert_int_equal(deadline("18446744073709551617"), MOST);
        assert_int_equal(deadline("99999999999999999999999999999999999999999999999999"), MOST);
        assert_false(hints_deadline("1", 1, 0, &span));
        assert_false(hints_deadline("1", 1, -MOST, &span));
        assert_true(hints_deadline("9223372036854", 13, INT64_MAX, &span));
}

static void a_priority_has_a_sign_and_a_range(void **state)
{
        int32_t priority = 7;

        (void)state;
        assert_true(hints_priority("-2147483647", 11, &priority));
        assert_int_equal(priority, -INT32_MAX);
        assert_true(hints_priority("2147483647", 10, &priority));
        assert_int_equal(priority, INT32_MAX);
        assert_false(hints_priority("2147483648", 10, &priority));
        assert_false(hints_priority("-", 1, &priority));
        assert_false(hints_priority("", 0, &priority));
        assert_false(hints_priority("--1", 3, &priority));
        assert_int_equal(priority, INT32_MAX);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_shorter_deadline_counts),
                cmocka_unit_test(a_deadline_beyond_any_number_is_the_longest),
                cmocka_unit_test(a_priority_has_a_sign_and_a_range),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
