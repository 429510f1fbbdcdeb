/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices lie close together: NVLink, then NUMA nodes, then the caller's costs; and N1 and N3 at random. */
#include "unit.h"

#include "near/near.h"

#include <stdlib.h>
#include <string.h>

#define BIT(i) (UINT32_C(1) << (i))

static uint32_t first_of(const struct near_device *devices, size_t n, uint32_t may, unsigned int count)
{
        uint32_t sets[NEAR_DEVICES];

        return near_pick(&(struct near_view){ devices, n, may, count }, sets) ? sets[0] : 0;
}

/* Pairs 0-1, 2-3, 4-5, 6-7; nodes 0 and 1. */
static void pairs(struct near_device devices[static 8])
{
        for (unsigned int i = 0; i < 8; i++)
                devices[i] = (struct near_device){ .links = BIT(i ^ 1), .numa = i >= 4 };
}

static void neighbours_of_nvlink_come_first_whatever_they_cost(void **state)
{
        struct near_device devices[8];

        (void)state;
        pairs(devices);
        devices[0].cost = devices[2].cost = -100; /* the cheapest two are not joined */
        devices[6].cost = devices[7].cost = -1;
        assert_int_equal(first_of(devices, 8, 0xff, 2), BIT(0) | BIT(1));
        assert_int_equal(first_of(devices, 8, 0xff & ~BIT(1), 2), BIT(2) | BIT(3));
        assert_int_equal(first_of(devices, 8, 0xff & ~(BIT(1) | BIT(3)), 2), BIT(6) | BIT(7));
}

static void then_devices_of_one_numa_node(void **state)
{
        struct near_device devices[8];

        (void)state;
        pairs(devices);
        assert_int_equal(first_of(devices, 8, 0xff, 4), 0x0f);
        assert_int_equal(first_of(devices, 8, BIT(1) | BIT(4) | BIT(6), 2), BIT(4) | BIT(6));
        assert_int_equal(first_of(devices, 8, BIT(1) | BIT(4), 2), BIT(1) | BIT(4)); /* if need be, across */
}

static void then_the_cheapest_and_then_the_lowest(void **state)
{
        struct near_device devices[4] = { { .cost = 5 }, { .cost = 1 }, { .cost = 4 }, { .cost = 1 } };

        (void)state;
        for (unsigned int i = 0; i < 4; i++)
                devices[i].links = 0xf & ~BIT(i); /* behind a switch */
        assert_int_equal(first_of(devices, 4, 0xf, 2), BIT(1) | BIT(3));
        assert_int_equal(first_of(devices, 4, 0xf, 1), BIT(1));
        devices[0].cost = 1;
        assert_int_equal(first_of(devices, 4, 0xf, 2), BIT(0) | BIT(1));
}

static void too_few_are_none(void **state)
{
        struct near_device devices[8];
        uint32_t sets[NEAR_DEVICES];

        (void)state;
        pairs(devices);
        assert_int_equal(near_pick(&(struct near_view){ devices, 8, BIT(3) | BIT(5), 3 }, sets), 0);
        assert_int_equal(near_pick(&(struct near_view){ devices, 8, 0, 1 }, sets), 0);
}

static unsigned int a_machine(struct near_device *devices)
{
        unsigned int n = 1 + (unsigned int)rand() % NEAR_DEVICES, group = 1 + (unsigned int)rand() % 8;

        memset(devices, 0, NEAR_DEVICES * sizeof(*devices));
        for (unsigned int i = 0; i < n; i++) {
                devices[i].numa = (int)(i * 2 / n);
                devices[i].cost = rand() % 5;
                for (unsigned int k = 0; k < n; k++)
                        if (k != i && k / group == i / group)
                                devices[i].links |= BIT(k);
        }
        return n;
}

/* Whether a group has so many that may be taken. */
static bool has_group(const struct near_device *devices, size_t n, uint32_t may, unsigned int count)
{
        for (size_t i = 0; i < n; i++)
                if (may & BIT(i) && (unsigned int)__builtin_popcount((devices[i].links | BIT(i)) & may) >= count)
                        return true;
        return false;
}

static void on_any_machine_the_count_is_exact_and_a_joined_set_is_found(void **state)
{
        struct near_device devices[NEAR_DEVICES];
        uint32_t sets[NEAR_DEVICES];

        (void)state;
        srand(7);
        for (int round = 0; round < 3000; round++) {
                unsigned int n = a_machine(devices), count = 1 + (unsigned int)rand() % 8;
                uint32_t may = (uint32_t)rand() & (n == 32 ? UINT32_MAX : BIT(n) - 1);
                size_t found = near_pick(&(struct near_view){ devices, n, may, count }, sets);

                assert_int_equal(found > 0, (unsigned int)__builtin_popcount(may) >= count); /* N1 */
                for (size_t i = 0; i < found; i++) {
                        assert_int_equal(__builtin_popcount(sets[i]), count);
                        assert_int_equal(sets[i] & ~may, 0);
                        for (size_t k = 0; k < i; k++)
                                assert_int_not_equal(sets[i], sets[k]);
                }
                if (has_group(devices, n, may, count)) /* N3 */
                        assert_int_equal(near_apart(devices, n, sets[0]), 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(neighbours_of_nvlink_come_first_whatever_they_cost),
                cmocka_unit_test(then_devices_of_one_numa_node),
                cmocka_unit_test(then_the_cheapest_and_then_the_lowest),
                cmocka_unit_test(too_few_are_none),
                cmocka_unit_test(on_any_machine_the_count_is_exact_and_a_joined_set_is_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
