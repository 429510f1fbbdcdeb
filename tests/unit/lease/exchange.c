/* SPDX-License-Identifier: Apache-2.0 */
/* What host memory an exchange of tenants with --swap may need: exchange.h on literals. */
#include "unit.h"

#include "lease/exchange.h"

/* On one device with this room, tenants of these sizes. */
static bytes needs(bytes room, const bytes *sizes, size_t n)
{
        struct exchange_host host = { 0 };
        struct exchange device = { 0 };

        for (size_t i = 0; i < n; i++)
                exchange_add(&device, sizes[i]);
        exchange_host_add(&host, &device, room);
        return exchange_host_needs(&host, false);
}

static void those_that_fit_together_need_nothing(void **state)
{
        (void)state;
        assert_int_equal(needs(80, (const bytes[]){ 40, 40 }, 2), 0);
        assert_int_equal(needs(80, (const bytes[]){ 40, 41 }, 2), 81);
}

static void of_many_small_ones_the_device_has_most(void **state)
{
        (void)state;
        assert_int_equal(needs(80, (const bytes[]){ 10, 10, 10, 10, 10, 10, 10, 10, 10 }, 9), 90 - 80 + 20);
        assert_int_equal(needs(80, (const bytes[]){ 10, 30, 20, 30 }, 4), 90 - 80 + 60);
}

static void where_one_has_several_devices_it_takes_all_sums(void **state)
{
        const struct exchange full = { .sum = 90, .largest = 10, .second = 10 }, empty = { .sum = 5, .largest = 5 };
        struct exchange_host host = { 0 };

        (void)state;
        exchange_host_add(&host, &full, 80);
        exchange_host_add(&host, &empty, 80);
        assert_int_equal(exchange_host_needs(&host, false), 30);
        assert_int_equal(exchange_host_needs(&host, true), 95);
}

static void what_nobody_has_is_not_small(void **state)
{
        (void)state;
        assert_int_equal(needs(80, (const bytes[]){ UINT64_MAX, UINT64_MAX, 1 }, 3), UINT64_MAX);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(those_that_fit_together_need_nothing),
                cmocka_unit_test(of_many_small_ones_the_device_has_most),
                cmocka_unit_test(where_one_has_several_devices_it_takes_all_sums),
                cmocka_unit_test(what_nobody_has_is_not_small),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
