/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "rm/call.h"
#include "rm/numbers.h"
#include "rm/releases.h"

static void most_controls_have_no_pointer(void **state)
{
        static const uint32_t plain[] = { RM_FB_GET_INFO_V2, RM_GET_PIDS, RM_SET_TIMESLICE, 0, 0xffffffff };
        struct rm_layout l = layout_of(580, 159, 4);

        (void)state;
        for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
                const struct rm_pointer *p = (const struct rm_pointer *)&l;

                assert_int_equal(rm_pointers(&l, plain[i], &p), 0);
                assert_null(p);
        }
}

static void a_list_is_as_long_as_its_count_says(void **state)
{
        struct rm_layout l = layout_of(580, 159, 4);
        const struct rm_pointer *p;
        uint8_t params[16] = { 0 };

        (void)state;
        assert_int_equal(rm_pointers(&l, 0x20801301, &p), 1); /* FB_GET_INFO, the old form */
        assert_int_equal(p->at, 8);
        assert_true(p->in && p->out);
        rm_put32(params, sizeof(params), 0, 3);
        rm_put64(params, sizeof(params), 8, 0x7f0000001000);
        assert_true(rm_pointer_bytes(p, params, sizeof(params)) == 24);
}

static void a_null_pointer_has_no_bytes(void **state)
{
        struct rm_layout l = layout_of(580, 159, 4);
        const struct rm_pointer *p;
        uint8_t params[16] = { 3 };

        (void)state;
        assert_int_equal(rm_pointers(&l, 0x20801301, &p), 1);
        assert_true(rm_pointer_bytes(p, params, sizeof(params)) == 0);
        assert_true(rm_pointer_bytes(p, params, 4) == 0); /* nor one that is cut off */
}

static void the_largest_count_does_not_wrap(void **state)
{
        struct rm_layout l = layout_of(580, 159, 4);
        const struct rm_pointer *p;
        uint8_t params[176];

        (void)state;
        memset(params, 0xff, sizeof(params));
        assert_int_equal(rm_pointers(&l, 0x20801301, &p), 1);
        assert_true(rm_pointer_bytes(p, params, 16) == 0xffffffffull * 8);
        assert_int_equal(rm_pointers(&l, 0x127, &p), 2);
        assert_true(rm_pointer_bytes(p, params, sizeof(params)) == UINT64_MAX);
        rm_put32(params, sizeof(params), 128, 0x10001); /* its square is 0x20001 in 32 bits */
        assert_true(rm_pointer_bytes(p, params, sizeof(params)) == UINT64_MAX);
        rm_put32(params, sizeof(params), 128, 32);
        assert_true(rm_pointer_bytes(p, params, sizeof(params)) == 32 * 32 * 4);
}

static void a_pointer_that_came_later_is_not_followed_before(void **state)
{
        struct rm_layout old = layout_of(545, 29, 6), new = layout_of(550, 54, 14);
        const struct rm_pointer *p;

        (void)state;
        assert_int_equal(rm_pointers(&old, 0x127, &p), 1);
        assert_int_equal(p[0].at, 160);
        assert_int_equal(rm_pointers(&new, 0x127, &p), 2);
        assert_int_equal(p[0].at, 160);
        assert_int_equal(p[1].at, 168);
}

static void a_pointer_that_nobody_described_has_no_size(void **state)
{
        struct rm_layout l = layout_of(580, 159, 4);
        const struct rm_pointer *p;
        uint8_t params[536] = { 0 };

        (void)state;
        assert_int_equal(rm_pointers(&l, RM_DISABLE_CHANNELS, &p), 1);
        assert_int_equal(p->element, 0);
        assert_true(rm_pointer_bytes(p, params, sizeof(params)) == UINT64_MAX);
}

/* Rows of one control stand together, or some would never be seen. */
static void every_row_is_reached(void **state)
{
        static const uint32_t cmds[] = {
#define POINTER(cmd, since, at, count_at, power, element, direction, meaning) cmd,
#include "rm/pointers.def"
#undef POINTER
        };
        size_t n_rows = sizeof(cmds) / sizeof(cmds[0]), n_reached = 0;
        struct rm_layout l = layout_of(595, 45, 4);

        (void)state;
        for (size_t i = 0; i < n_rows; i++) {
                const struct rm_pointer *p;
                size_t n = rm_pointers(&l, cmds[i], &p);

                assert_in_range(n, 1, 3);
                for (size_t j = 0; j < n; j++) {
                        assert_int_equal(p[j].cmd, cmds[i]);
                        assert_true(p[j].in || p[j].out);
                        assert_in_range(p[j].power, 1, 2);
                        assert_true(p[j].at % 8 == 0);
                }
                if (i == 0 || cmds[i] != cmds[i - 1])
                        n_reached += n;
        }
        assert_int_equal(n_reached, n_rows);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(most_controls_have_no_pointer),
                cmocka_unit_test(a_list_is_as_long_as_its_count_says),
                cmocka_unit_test(a_null_pointer_has_no_bytes),
                cmocka_unit_test(the_largest_count_does_not_wrap),
                cmocka_unit_test(a_pointer_that_came_later_is_not_followed_before),
                cmocka_unit_test(a_pointer_that_nobody_described_has_no_size),
                cmocka_unit_test(every_row_is_reached),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
