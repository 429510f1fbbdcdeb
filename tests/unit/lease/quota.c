/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "lease/quota.h"

#include <errno.h>
#include <pthread.h>

static void a_taken_charge_is_used(void **state)
{
        struct quota quota = { .size = 100 };
        struct charge charge = { 0 };

        (void)state;
        assert_int_equal(quota_take(&quota, 60, &charge), QUOTA_OK);
        assert_ptr_equal(charge.quota, &quota);
        assert_int_equal(charge.size, 60);
        assert_int_equal(quota.used, 60);
        assert_int_equal(quota_free(&quota), 40);
}

static void a_refused_charge_takes_nothing(void **state)
{
        struct quota quota = { .size = 100 };
        struct charge charge = { 0 };

        (void)state;
        assert_int_equal(quota_take(&quota, 101, &charge), QUOTA_E_FULL);
        assert_int_equal(quota.used, 0);
        assert_null(charge.quota);
}

static void the_last_byte_can_be_had_and_no_more(void **state)
{
        struct quota quota = { .size = 100 };
        struct charge all = { 0 }, more = { 0 };

        (void)state;
        assert_int_equal(quota_take(&quota, 100, &all), QUOTA_OK);
        assert_int_equal(quota_free(&quota), 0);
        assert_int_equal(quota_take(&quota, 1, &more), QUOTA_E_FULL);
        charge_drop(&all);
        assert_int_equal(quota_take(&quota, 1, &more), QUOTA_OK);
}

static void scope_returns_a_charge_unless_it_was_handed_on(void **state)
{
        struct quota quota = { .size = 100 };
        struct charge kept = { 0 };

        (void)state;
        for (int i = 0; i < 2; i++) {
                _cleanup_(charge_drop) struct charge charge = { 0 };

                assert_int_equal(quota_take(&quota, 30, &charge), QUOTA_OK);
                if (i == 0)
                        kept = TAKE(charge);
        }
        assert_int_equal(quota.used, 30);
        charge_drop(&kept);
        charge_drop(&kept);
        assert_int_equal(quota.used, 0);
}

static void nothing_costs_nothing_also_when_full(void **state)
{
        struct quota quota = { .size = 10, .used = 20 };
        struct charge charge = { &quota, 7 };

        (void)state;
        assert_int_equal(quota_take(&quota, 0, &charge), QUOTA_OK);
        assert_null(charge.quota);
        assert_int_equal(charge.size, 0);
        assert_int_equal(quota.used, 20);
        assert_int_equal(quota.n_refused, 0);
}

static void a_quota_below_its_use_grants_nothing(void **state)
{
        struct quota quota = { .size = 100 };
        struct charge held = { 0 }, more = { 0 };

        (void)state;
        assert_int_equal(quota_take(&quota, 80, &held), QUOTA_OK);
        quota.size = 50;
        assert_int_equal(quota_take(&quota, 1, &more), QUOTA_E_FULL);
        assert_int_equal(quota_free(&quota), 0);
        charge_drop(&held);
        assert_int_equal(quota_free(&quota), 50);
}

static void no_sum_overflows(void **state)
{
        struct quota quota = { .size = UINT64_MAX };
        struct charge a = { 0 }, b = { 0 };

        (void)state;
        assert_int_equal(quota_take(&quota, UINT64_MAX - 5, &a), QUOTA_OK);
        assert_int_equal(quota_take(&quota, 6, &b), QUOTA_E_FULL);
        assert_int_equal(quota_take(&quota, UINT64_MAX, &b), QUOTA_E_FULL);
        assert_int_equal(charge_resize(&a, UINT64_MAX), QUOTA_OK);
        assert_int_equal(quota.used, UINT64_MAX);
        charge_drop(&a);
        assert_int_equal(quota.used, 0);
}

static void refusals_are_counted_but_not_those_of_a_try(void **state)
{
        struct quota quota = { .size = 10 };
        struct charge charge = { 0 };

        (void)state;
        assert_int_equal(quota_try(&quota, 99, &charge), QUOTA_E_FULL);
        assert_int_equal(quota.n_refused, 0);
        assert_int_equal(quota.largest_refused, 0);
        assert_int_equal(quota_take(&quota, 40, &charge), QUOTA_E_FULL);
        assert_int_equal(quota_take(&quota, 30, &charge), QUOTA_E_FULL);
        assert_int_equal(quota.n_refused, 2);
        assert_int_equal(quota.largest_refused, 40);
}

static void the_peak_stays_when_charges_go(void **state)
{
        struct quota quota = { .size = 100 };
        struct charge charge = { 0 };

        (void)state;
        assert_int_equal(quota_take(&quota, 70, &charge), QUOTA_OK);
        charge_drop(&charge);
        assert_int_equal(quota_take(&quota, 20, &charge), QUOTA_OK);
        assert_int_equal(quota.peak, 70);
        assert_int_equal(charge_resize(&charge, 90), QUOTA_OK);
        assert_int_equal(quota.peak, 90);
}

static void a_charge_that_cannot_grow_stays_as_it_was(void **state)
{
        struct quota quota = { .size = 100 };
        struct charge charge = { 0 };

        (void)state;
        assert_int_equal(quota_take(&quota, 60, &charge), QUOTA_OK);
        assert_int_equal(charge_resize(&charge, 101), QUOTA_E_FULL);
        assert_int_equal(charge.size, 60);
        assert_int_equal(quota.used, 60);
        assert_int_equal(quota.n_refused, 1);
        assert_int_equal(quota.largest_refused, 101);
        assert_int_equal(charge_resize(&charge, 100), QUOTA_OK);
        assert_int_equal(quota.used, 100);
}

static void a_charge_may_shrink_also_over_the_quota_and_grow_from_zero(void **state)
{
        struct quota quota = { .size = 100 };
        struct charge charge = { 0 };

        (void)state;
        assert_int_equal(quota_take(&quota, 60, &charge), QUOTA_OK);
        quota.size = 10;
        assert_int_equal(charge_resize(&charge, 50), QUOTA_OK);
        assert_int_equal(quota.used, 50);
        assert_int_equal(charge_resize(&charge, 50), QUOTA_OK);
        assert_int_equal(charge_resize(&charge, 0), QUOTA_OK);
        assert_int_equal(quota.used, 0);
        assert_int_equal(charge_resize(&charge, 10), QUOTA_OK);
        assert_int_equal(quota.used, 10);
}

static void an_empty_charge_cannot_grow(void **state)
{
        struct charge charge = { 0 };

        (void)state;
        assert_int_equal(charge_resize(&charge, 0), QUOTA_OK);
        assert_int_equal(charge_resize(&charge, 1), -EINVAL);
        assert_null(charge.quota);
}

enum {
        N_THREADS = 8,
        N_ROUNDS = 100000,
        SIZE = 1000,
};

struct racer {
        struct quota *quota;
        uint64_t random;
        size_t n_granted, n_refused, n_over;
};

/* Holds up to four charges, and looks whether the bound holds while others do the same. */
static void *race(void *data)
{
        struct racer *racer = data;
        struct charge held[4] = { 0 };

        for (size_t i = 0; i < N_ROUNDS; i++) {
                struct charge *charge = &held[i % 4];

                racer->random = racer->random * 6364136223846793005u + 1442695040888963407u;
                charge_drop(charge);
                if (quota_take(racer->quota, racer->random >> 32 & 255, charge) == QUOTA_OK)
                        racer->n_granted++;
                else
                        racer->n_refused++;
                if (racer->random >> 60 == 0)
                        (void)charge_resize(charge, charge->quota ? racer->random >> 40 & 255 : 0);
                if (racer->quota->used > SIZE)
                        racer->n_over++;
        }
        for (size_t i = 0; i < 4; i++)
                charge_drop(&held[i]);
        return NULL;
}

static void eight_racing_threads_never_exceed_the_quota(void **state)
{
        struct quota quota = { .size = SIZE };
        struct racer racers[N_THREADS];
        pthread_t threads[N_THREADS];
        size_t n_granted = 0;

        (void)state;
        for (size_t i = 0; i < N_THREADS; i++) {
                racers[i] = (struct racer){ .quota = &quota, .random = i + 1 };
                assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
        }
        for (size_t i = 0; i < N_THREADS; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_int_equal(racers[i].n_over, 0);
                n_granted += racers[i].n_granted;
        }
        assert_int_equal(quota.used, 0);
        assert_true(quota.peak <= SIZE && quota.peak > 0);
        assert_true(n_granted > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_taken_charge_is_used),
                cmocka_unit_test(a_refused_charge_takes_nothing),
                cmocka_unit_test(the_last_byte_can_be_had_and_no_more),
                cmocka_unit_test(scope_returns_a_charge_unless_it_was_handed_on),
                cmocka_unit_test(nothing_costs_nothing_also_when_full),
                cmocka_unit_test(a_quota_below_its_use_grants_nothing),
                cmocka_unit_test(no_sum_overflows),
                cmocka_unit_test(refusals_are_counted_but_not_those_of_a_try),
                cmocka_unit_test(the_peak_stays_when_charges_go),
                cmocka_unit_test(a_charge_that_cannot_grow_stays_as_it_was),
                cmocka_unit_test(a_charge_may_shrink_also_over_the_quota_and_grow_from_zero),
                cmocka_unit_test(an_empty_charge_cannot_grow),
                cmocka_unit_test(eight_racing_threads_never_exceed_the_quota),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
