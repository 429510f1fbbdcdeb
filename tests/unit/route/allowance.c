/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/allowance.h"

#include "unit.h"

enum {
        BURST = 4,
};

static const nsec each = NSEC_PER_SEC / 10;

static int passed(struct allowance *allowance, int tries, nsec now)
{
        int n = 0;

        for (int i = 0; i < tries; i++)
                n += allowance_take(allowance, each, BURST, now);
        return n;
}

static void a_burst_and_one_pass_at_once_then_the_rate(void **state)
{
        struct allowance key = { 0 };

        (void)state;
        assert_int_equal(passed(&key, 20, NSEC_PER_SEC), BURST + 1);
        assert_int_equal(passed(&key, 20, NSEC_PER_SEC + 3 * each), 3);
        assert_int_equal(key.spent, BURST + 4);
}

static void what_passed_elsewhere_counts(void **state)
{
        struct allowance key = { 0 };

        (void)state;
        allowance_hear(&key, each, 3, NSEC_PER_SEC);
        assert_int_equal(passed(&key, 20, NSEC_PER_SEC), BURST + 1 - 3);
        allowance_hear(&key, each, 5, NSEC_PER_SEC); /* too much was let pass: it is paid back */
        assert_int_equal(passed(&key, 20, NSEC_PER_SEC + 5 * each), 0);
        assert_int_equal(passed(&key, 20, NSEC_PER_SEC + 6 * each), 1);
        assert_int_equal(key.spent, 3);
}

/* Two that hear each other ten times a second, each offered far more than the key's rate. */
static void two_routers_let_one_rate_pass(void **state)
{
        struct allowance a = { 0 }, b = { 0 };
        int n = 0, of_a, of_b;

        (void)state;
        for (nsec now = NSEC_PER_SEC; now < 61 * NSEC_PER_SEC; now += NSEC_PER_SEC / 10) {
                of_a = passed(&a, 10, now);
                of_b = passed(&b, 10, now);
                allowance_hear(&a, each, (uint64_t)of_b, now);
                allowance_hear(&b, each, (uint64_t)of_a, now);
                n += of_a + of_b;
        }
        assert_in_range(n, 600, 600 + 2 * (BURST + 1));
}

static void debts_end(void **state)
{
        struct allowance key = { 0 };

        (void)state;
        allowance_hear(&key, each, UINT64_MAX, NSEC_PER_SEC);
        assert_int_equal(passed(&key, 1, 3600 * NSEC_PER_SEC), 0);
        assert_int_equal(passed(&key, 1, 3602 * NSEC_PER_SEC), 1);
}

static void each_name_has_one_slot(void **state)
{
        struct allowance table[2] = { 0 };

        (void)state;
        assert_ptr_equal(allowance_find(table, 2, 7), &table[1]);
        assert_ptr_equal(allowance_find(table, 2, 9), &table[0]);
        assert_ptr_equal(allowance_find(table, 2, 7), &table[1]);
        assert_null(allowance_find(table, 2, 11));
}

static void it_is_said_how_long_the_next_one_must_wait(void **state)
{
        struct allowance key = { 0 };

        (void)state;
        assert_int_equal(allowance_wait(&key, each, BURST, NSEC_PER_SEC), 0);
        (void)passed(&key, 20, NSEC_PER_SEC);
        assert_int_equal(allowance_wait(&key, each, BURST, NSEC_PER_SEC), each);
        assert_int_equal(passed(&key, 1, NSEC_PER_SEC + each), 1);
}

static void so_many_are_there_at_once_here_and_elsewhere(void **state)
{
        struct allowance key = { 0 };
        _Atomic uint16_t row = 0;

        (void)state;
        assert_true(allowance_enter(&key, &row, 3, 5));
        key.elsewhere = 1;
        key.elsewhere_until = 10;
        assert_true(allowance_enter(&key, &row, 3, 5));
        assert_false(allowance_enter(&key, &row, 3, 5));
        assert_int_equal(row, 2);
        assert_true(allowance_enter(&key, &row, 3, 10)); /* what was heard is too old */
        assert_false(allowance_enter(&key, &row, 3, 10));
        allowance_leave(&key, &row);
        assert_true(allowance_enter(&key, &row, 3, 10));
        assert_int_equal(key.at_once, 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_burst_and_one_pass_at_once_then_the_rate),
                cmocka_unit_test(what_passed_elsewhere_counts),
                cmocka_unit_test(two_routers_let_one_rate_pass),
                cmocka_unit_test(debts_end),
                cmocka_unit_test(each_name_has_one_slot),
                cmocka_unit_test(it_is_said_how_long_the_next_one_must_wait),
                cmocka_unit_test(so_many_are_there_at_once_here_and_elsewhere),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
