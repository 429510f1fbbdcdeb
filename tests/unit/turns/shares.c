/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "turns/inside.h"

#include <stdlib.h>

static struct turns *turns;
static struct turns_tenant tenants[TURNS_TENANTS_MAX];
static struct turns_view view = { .tenants = tenants };

static int set_up(void **state)
{
        (void)state;
        turns = calloc(1, sizeof(*turns));
        view.n_tenants = 0;
        return turns ? 0 : -1;
}

static int tear_down(void **state)
{
        (void)state;
        free(turns);
        return 0;
}

static void add(permille share, permille cap)
{
        turns->entities[turns->n].is_time_sliced = true;
        tenants[turns->n++] = (struct turns_tenant){ .id = turns->n, .share = share, .cap = cap };
        view.n_tenants = turns->n;
}

static void divide(void)
{
        shares_set(turns, &view);
        shares_weigh(turns, &view);
}

static uint64_t sum_of_weights(void)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < turns->n; i++)
                sum += turns->entities[i].weight;
        return sum;
}

static void promised_shares_stay_and_weights_divide_the_whole(void **state)
{
        (void)state;
        add(300, 1000), add(100, 1000);
        divide();
        assert_int_equal(turns->entities[0].share, 300000);
        assert_int_equal(turns->entities[1].share, 100000);
        assert_int_equal(turns->entities[0].weight, 750000);
        assert_int_equal(turns->entities[1].weight, 250000);
}

static void tenants_without_a_promise_get_equal_parts_of_the_rest(void **state)
{
        (void)state;
        add(400, 1000), add(0, 1000), add(0, 1000);
        divide();
        assert_int_equal(turns->entities[1].share, 300000);
        assert_int_equal(turns->entities[2].share, 300000);
}

static void tenants_without_a_promise_get_at_least_a_permille(void **state)
{
        (void)state;
        add(600, 1000), add(600, 1000), add(0, 1000);
        divide();
        assert_int_equal(turns->entities[0].share, 600000ull * PPM / 1201000);
        assert_int_equal(turns->entities[2].share, 1000ull * PPM / 1201000);
}

static void an_equal_part_is_what_is_left_divided_and_at_least_a_permille(void **state)
{
        (void)state;
        for (permille promised = 0; promised <= 2 * TURNS_WHOLE; promised++)
                for (size_t n = 1; n <= TURNS_TENANTS_MAX; n++) {
                        uint64_t left = promised < TURNS_WHOLE ? (TURNS_WHOLE - promised) * TURNS_PPM : 0;
                        uint64_t part = turns_equal_part(promised, n);

                        if (part < TURNS_PPM)
                                fail_msg("%u promised, %zu without a share: %llu ppm", promised, n,
                                         (unsigned long long)part);
                        if (part > TURNS_PPM && (part * n > left || (part + 1) * n <= left))
                                fail_msg("%u promised, %zu without a share: %llu ppm of %llu", promised, n,
                                         (unsigned long long)part, (unsigned long long)left);
                }
}

static void an_equal_part_never_grows_with_promises_or_with_tenants(void **state)
{
        (void)state;
        for (permille promised = 0; promised <= TURNS_WHOLE; promised++)
                for (size_t n = 1; n <= TURNS_TENANTS_MAX; n++)
                        if (turns_equal_part(promised + 1, n) > turns_equal_part(promised, n) ||
                            turns_equal_part(promised, n + 1) > turns_equal_part(promised, n))
                                fail_msg("%u promised, %zu without a share", promised, n);
}

static void an_always_on_tenant_has_no_weight(void **state)
{
        (void)state;
        add(500, 1000), add(500, 1000);
        turns->entities[0].is_time_sliced = false;
        divide();
        assert_int_equal(turns->entities[0].weight, 0);
        assert_int_equal(turns->entities[1].weight, PPM);
        assert_int_equal(turns->n_time_sliced, 1);
}

static void what_a_cap_leaves_goes_to_the_others(void **state)
{
        (void)state;
        add(500, 300), add(300, 1000), add(200, 1000);
        divide();
        assert_int_equal(turns->entities[0].weight, cap_rate(&tenants[0]));
        assert_true(turns->entities[0].is_at_cap);
        assert_in_range(turns->entities[1].weight, 422000, 423000); /* 3/5 of 704000 */
        assert_in_range(sum_of_weights(), PPM - 3, PPM);
}

static void a_cap_that_binds_only_after_another_does_is_kept_too(void **state)
{
        (void)state;
        add(500, 100), add(400, 500), add(100, 1000);
        divide();
        assert_int_equal(turns->entities[1].weight, cap_rate(&tenants[1]));
        assert_in_range(turns->entities[2].weight, 407000, 409000);
}

static void if_all_have_caps_a_part_of_the_whole_stays_unused(void **state)
{
        (void)state;
        add(500, 300), add(500, 200);
        divide();
        assert_int_equal(sum_of_weights(), cap_rate(&tenants[0]) + cap_rate(&tenants[1]));
}

static void random_weights_exceed_neither_a_cap_nor_the_whole(void **state)
{
        (void)state;
        srand(7);
        for (int i = 0; i < 2000; i++) {
                turns->n = 0;
                for (int k = 1 + rand() % 40; k > 0; k--)
                        add((permille)(rand() % 1200), (permille)(1 + rand() % 1200));
                divide();
                assert_true(sum_of_weights() <= PPM + 40);
                for (size_t k = 0; k < turns->n; k++)
                        if (tenants[k].cap < TURNS_WHOLE)
                                assert_true(turns->entities[k].weight <= cap_rate(&tenants[k]));
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(promised_shares_stay_and_weights_divide_the_whole),
                TEST(tenants_without_a_promise_get_equal_parts_of_the_rest),
                TEST(tenants_without_a_promise_get_at_least_a_permille),
                TEST(an_equal_part_is_what_is_left_divided_and_at_least_a_permille),
                TEST(an_equal_part_never_grows_with_promises_or_with_tenants),
                TEST(an_always_on_tenant_has_no_weight),
                TEST(what_a_cap_leaves_goes_to_the_others),
                TEST(a_cap_that_binds_only_after_another_does_is_kept_too),
                TEST(if_all_have_caps_a_part_of_the_whole_stays_unused),
                TEST(random_weights_exceed_neither_a_cap_nor_the_whole),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
