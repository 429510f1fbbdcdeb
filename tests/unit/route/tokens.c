/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/tokens.h"

#include "unit.h"

enum {
        PER_MINUTE = 6000, /* ten milliseconds each */
};

#define NOW (100 * NSEC_PER_SEC)
#define EACH (10 * NSEC_PER_MSEC)

static nsec take(struct tokens *tokens, uint64_t n, nsec now)
{
        return tokens_take(tokens, PER_MINUTE, n, now);
}

static void a_minute_of_tokens_passes_at_once_then_the_rate(void **state)
{
        struct tokens key = { 0 };

        (void)state;
        assert_int_equal(take(&key, 4000, NOW), 0);
        assert_int_equal(take(&key, 2000, NOW), 0);
        assert_int_equal(take(&key, 10, NOW), 10 * EACH);
        assert_int_equal(take(&key, 10, NOW + 9 * EACH), EACH);
        assert_int_equal(take(&key, 10, NOW + 10 * EACH), 0);
        assert_int_equal(key.taken, 6010);
}

static void what_was_estimated_is_given_back_and_what_was_used_is_taken(void **state)
{
        struct tokens key = { 0 };

        (void)state;
        assert_int_equal(take(&key, 6000, NOW), 0);
        tokens_settle(&key, PER_MINUTE, 6000, 1000, NOW);
        assert_int_equal(take(&key, 5000, NOW), 0);
        assert_int_not_equal(take(&key, 1, NOW), 0);
        tokens_settle(&key, PER_MINUTE, 5000, 7000, NOW); /* too low: it is paid back first */
        assert_int_equal(take(&key, 1, NOW), 2001 * EACH);
        assert_int_equal(key.taken - key.returned, 8000);
}

static void what_is_larger_than_the_budget_passes_alone(void **state)
{
        struct tokens key = { 0 };

        (void)state;
        assert_int_equal(take(&key, 9000, NOW), 0);
        assert_int_equal(take(&key, 9000, NOW), 9000 * EACH);
        assert_int_equal(take(&key, 1, NOW), 3001 * EACH);
        assert_int_equal(take(&key, 9000, NOW + 9000 * EACH), 0);
}

static void what_is_returned_late_is_no_credit_for_ever(void **state)
{
        struct tokens key = { 0 };
        nsec much_later = NOW + 3600 * NSEC_PER_SEC;

        (void)state;
        assert_int_equal(take(&key, 6000, NOW), 0);
        tokens_settle(&key, PER_MINUTE, 6000, 0, much_later);
        assert_int_equal(take(&key, 6000, much_later + EACH), 0);
        assert_int_equal(take(&key, 6001, much_later + EACH), 6000 * EACH);
}

static void debts_end(void **state)
{
        struct tokens key = { 0 };

        (void)state;
        tokens_settle(&key, PER_MINUTE, 0, UINT64_MAX, NOW);
        tokens_settle(&key, PER_MINUTE, 0, UINT64_MAX, NOW);
        assert_int_not_equal(take(&key, 1, NOW + 3500 * NSEC_PER_SEC), 0);
        assert_int_equal(take(&key, 1, NOW + 3601 * NSEC_PER_SEC), 0);
}

static void what_is_above_a_minutes_budget_is_owed(void **state)
{
        struct tokens key = { 0 };

        (void)state;
        assert_int_equal(tokens_owed(&key, NOW), 0);
        tokens_settle(&key, PER_MINUTE, 0, PER_MINUTE, NOW);
        assert_int_equal(tokens_owed(&key, NOW), 0);
        tokens_settle(&key, PER_MINUTE, 0, PER_MINUTE / 2, NOW);
        assert_int_equal(tokens_owed(&key, NOW), 30 * NSEC_PER_SEC);
        assert_int_equal(tokens_owed(&key, NOW + 30 * NSEC_PER_SEC), 0);
}

/* Two that hear each other ten times a second, each offered far more than the budget. */
static void two_routers_let_one_budget_pass(void **state)
{
        struct tokens a = { 0 }, b = { 0 };
        uint64_t of_a, of_b;

        (void)state;
        for (nsec now = NOW; now < NOW + 120 * NSEC_PER_SEC; now += NSEC_PER_SEC / 10) {
                of_a = a.taken;
                of_b = b.taken;
                for (int i = 0; i < 10; i++) {
                        (void)take(&a, 50, now);
                        (void)take(&b, 50, now);
                }
                tokens_hear(&a, PER_MINUTE, b.taken - of_b, 0, now);
                tokens_hear(&b, PER_MINUTE, a.taken - of_a, 0, now);
        }
        assert_in_range(a.taken + b.taken, 17000, 3 * PER_MINUTE + 2 * 500);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_minute_of_tokens_passes_at_once_then_the_rate),
                cmocka_unit_test(what_was_estimated_is_given_back_and_what_was_used_is_taken),
                cmocka_unit_test(what_is_larger_than_the_budget_passes_alone),
                cmocka_unit_test(what_is_returned_late_is_no_credit_for_ever),
                cmocka_unit_test(debts_end),
                cmocka_unit_test(what_is_above_a_minutes_budget_is_owed),
                cmocka_unit_test(two_routers_let_one_budget_pass),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
