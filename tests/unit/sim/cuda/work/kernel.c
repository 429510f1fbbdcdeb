/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/cuda/work/module.h"

#include <stdlib.h>
#include <string.h>

/* burn(p, n) with n rounds on so many blocks of 256 threads. */
static uint64_t burn_cost_on(uint32_t multiprocessors, uint32_t blocks, uint32_t rounds, uint64_t duration)
{
        struct CUfunc_st function = {
                .name = (char *)(uintptr_t) "burn",
                .n_params = 2,
                .size = 12,
                .at = { 0, 8 },
                .length = { 8, 4 },
                .duration = duration,
                .kernel = kernel_named("burn"),
        };
        uint8_t params[12] = { 0 };
        struct op op = { .kind = OP_KERNEL };

        memcpy(params + 8, &rounds, sizeof(rounds));
        op.kernel.function = &function;
        op.kernel.params = params;
        op.kernel.size = sizeof(params);
        op.kernel.grid[0] = blocks;
        op.kernel.grid[1] = op.kernel.grid[2] = 1;
        op.kernel.block[0] = 256;
        op.kernel.block[1] = op.kernel.block[2] = 1;
        return kernel_cost(&op, multiprocessors);
}

static uint64_t burn_cost(uint32_t blocks, uint32_t rounds, uint64_t duration)
{
        return burn_cost_on(0, blocks, rounds, duration);
}

static void burn_costs_what_was_measured(void **state)
{
        uint64_t ns = burn_cost(1056, 20000, 0); /* 1299 per second on the device */

        (void)state;
        assert_in_range(ns, 760000, 780000);
}

static void more_rounds_and_more_blocks_cost_more(void **state)
{
        (void)state;
        assert_in_range(burn_cost(1056, 200000, 0), 7600000, 7800000);
        assert_in_range(burn_cost(2112, 20000, 0), 1520000, 1560000);
        assert_in_range(burn_cost(1057, 20000, 0), 1520000, 1560000); /* a second wave */
        assert_true(burn_cost(1, 20000, 0) < burn_cost(1056, 20000, 0));
}

/* H200, green contexts: 43.0, 86.0, 177.3 and 353.9 launches a second with 16, 32, 66 and 132 of 132. */
static void fewer_multiprocessors_take_longer_in_proportion(void **state)
{
        (void)state;
        assert_int_equal(burn_cost_on(132, 10560, 20000, 0), burn_cost(10560, 20000, 0));
        assert_in_range(burn_cost_on(66, 10560, 20000, 0), 15200000, 15600000);
        assert_in_range(burn_cost_on(33, 10560, 20000, 0), 30400000, 31200000);
        assert_int_equal(burn_cost_on(33, 1056, 20000, 1000), 4000);
}

static void a_directive_takes_the_place_of_the_model(void **state)
{
        (void)state;
        assert_int_equal(burn_cost(1056, 20000, 1234), 1234);
}

static void a_setting_takes_the_place_of_both(void **state)
{
        (void)state;
        assert_int_equal(setenv("SUBLET_SIM_KERNEL_NS", "other=5,burn=42,7", 1), 0);
        assert_int_equal(burn_cost(1056, 20000, 1234), 42);
        assert_int_equal(setenv("SUBLET_SIM_KERNEL_NS", "other=5,7", 1), 0);
        assert_int_equal(burn_cost(1056, 20000, 1234), 7);
        assert_int_equal(setenv("SUBLET_SIM_KERNEL_NS", "burning=5", 1), 0);
        assert_int_equal(burn_cost(1056, 20000, 1234), 1234);
        assert_int_equal(unsetenv("SUBLET_SIM_KERNEL_NS"), 0);
}

static void an_unknown_entry_does_nothing_and_costs_little(void **state)
{
        const struct kernel *kernel = kernel_named("nobody");

        (void)state;
        assert_null(kernel->work);
        assert_in_range(kernel->cost(&(struct op){ .kind = OP_KERNEL }, 132), 1, 10000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(burn_costs_what_was_measured),
                cmocka_unit_test(more_rounds_and_more_blocks_cost_more),
                cmocka_unit_test(fewer_multiprocessors_take_longer_in_proportion),
                cmocka_unit_test(a_directive_takes_the_place_of_the_model),
                cmocka_unit_test(a_setting_takes_the_place_of_both),
                cmocka_unit_test(an_unknown_entry_does_nothing_and_costs_little),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
