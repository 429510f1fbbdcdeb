/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/cuda/driver/nv.h"

static void handles_are_the_lowest_free_ones(void **state)
{
        struct nv nv = { .ctl = -1, .uvm = -1, .uvm_mm = -1, .prefix = 0x5c000000, .stride = 1 };

        (void)state;
        assert_int_equal(nv_handle_take(&nv), 0x5c000001);
        assert_int_equal(nv_handles_take(&nv, 12), 2);
        assert_int_equal(nv_handle_take(&nv), 0x5c00000e);
        nv_handle_give(&nv, 0x5c000005);
        nv_handle_give(&nv, 0x5c000006);
        assert_int_equal(nv_handles_take(&nv, 3), 15); /* two in a row are too few */
        assert_int_equal(nv_handle_take(&nv), 0x5c000005);
        assert_int_equal(nv_handle_take(&nv), 0x5c000006);
        assert_int_equal(nv_handle_take(&nv), 0x5c000012);
        nv_done(&nv);
}

static void many_handles_stay_different(void **state)
{
        struct nv nv = { .ctl = -1, .uvm = -1, .uvm_mm = -1, .prefix = 0x5c000000, .stride = 1 };

        (void)state;
        for (uint32_t i = 1; i <= 20000; i++)
                assert_int_equal(nv_handle_take(&nv), 0x5c000000 + i);
        for (uint32_t i = 1; i <= 20000; i += 3)
                nv_handle_give(&nv, 0x5c000000 + i);
        for (uint32_t i = 1; i <= 20000; i += 3)
                assert_int_equal(nv_handle_take(&nv), 0x5c000000 + i);
        assert_int_equal(nv_handle_take(&nv), 0x5c000000 + 20001);
        nv_done(&nv);
}

static void a_stride_keeps_handles_apart(void **state)
{
        struct nv nv = { .ctl = -1, .uvm = -1, .uvm_mm = -1, .prefix = 0xa55a0000, .stride = 16 };
        uint32_t a = nv_handle_take(&nv), b = nv_handle_take(&nv);

        (void)state;
        assert_int_equal(b - a, 16);
        nv_handle_give(&nv, a);
        assert_int_equal(nv_handle_take(&nv), a);
        nv_done(&nv);
}

static void a_closed_node_is_a_lost_call(void **state)
{
        struct nv nv = { .ctl = -1, .uvm = -1, .uvm_mm = -1, .prefix = 1, .stride = 1 };
        uint8_t block[16] = { 0 };

        (void)state;
        assert_int_equal(nv_ioctl(-1, 0x29, block, sizeof(block), 12), NV_LOST);
        assert_int_equal(nv_free(&nv, 1, 2), NV_LOST);
        assert_int_equal(nv_uvm_create(&nv, 0, 4096), NV_LOST);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(handles_are_the_lowest_free_ones),
                cmocka_unit_test(many_handles_stay_different),
                cmocka_unit_test(a_stride_keeps_handles_apart),
                cmocka_unit_test(a_closed_node_is_a_lost_call),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
