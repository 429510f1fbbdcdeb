/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "turns/turns.h"

#include <stdlib.h>

static struct turns_order orders[3];

/* The first orders for tenants of these classes, none of which has run yet. */
static void order(size_t n, const enum turns_class *classes)
{
        const struct turns_settings settings = { .policy = TURNS_POLICY_TURNS };
        struct turns_tenant tenants[3] = { 0 };
        struct turns_view view = {
                .now = NSEC_PER_SEC, .metered_until = NSEC_PER_SEC, .tenants = tenants, .n_tenants = n
        };
        struct turns *turns = NULL;

        for (size_t i = 0; i < n; i++)
                tenants[i] = (struct turns_tenant){
                        .id = i + 1, .share = 300, .cap = TURNS_WHOLE, .class = classes[i], .n_groups = 1
                };
        assert_int_equal(turns_new(&settings, &turns), 0);
        (void)turns_next(turns, &view, orders);
        turns_free(turns);
}

static void a_tenant_that_yields_alone_does_so_at_once(void **state)
{
        (void)state;
        order(2, (const enum turns_class[]){ TURNS_LATENCY, TURNS_NORMAL });
        assert_int_equal(orders[0].slice, 20 * NSEC_PER_MSEC);
        assert_int_equal(orders[1].slice, NSEC_PER_USEC);
        order(1, (const enum turns_class[]){ TURNS_BATCH });
        assert_int_equal(orders[0].slice, NSEC_PER_USEC);
}

static void two_tenants_that_yield_do_not_cut_each_other_into_pieces(void **state)
{
        (void)state;
        order(3, (const enum turns_class[]){ TURNS_LATENCY, TURNS_NORMAL, TURNS_BATCH });
        assert_int_equal(orders[1].slice, 50 * NSEC_PER_USEC);
        assert_int_equal(orders[2].slice, 50 * NSEC_PER_USEC);
}

static void without_urgent_tenants_slices_are_ordinary(void **state)
{
        (void)state;
        order(2, (const enum turns_class[]){ TURNS_NORMAL, TURNS_NORMAL });
        assert_true(orders[0].slice >= 500 * NSEC_PER_USEC);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_tenant_that_yields_alone_does_so_at_once),
                cmocka_unit_test(two_tenants_that_yield_do_not_cut_each_other_into_pieces),
                cmocka_unit_test(without_urgent_tenants_slices_are_ordinary),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
