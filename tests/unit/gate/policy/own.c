/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of what the driver takes without being asked is never below what it was seen to take:
 * tests/gpu/ownmem.sh,
 * H200, 580.159.04. */
#include "unit.h"

#include "base/cleanup.h"
#include "gate/policy/own.h"
#include "rm/call.h"
#include "rm/numbers.h"

#define EACH 64 /* KiB: how much above the measured figure the arithmetic may be */

static void a_reservation_costs_what_was_measured(void **state)
{
        static const struct {
                uint32_t pages, gib, kib;
        } rows[] = {
                { 0, 1, 2176 },     { 0, 16, 34944 }, { 0, 256, 559104 }, { 1, 1, 2048 },     { 1, 16, 32896 },
                { 1, 256, 526336 }, { 2, 16, 32896 }, { 3, 16, 32896 },   { 3, 256, 526336 },
        };
        bytes most;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                bytes size = own_reservation(0x80000, rows[i].pages << 23, rows[i].gib * GIB, &most);

                assert_true(size >= rows[i].kib * KIB && size <= (rows[i].kib + EACH) * KIB);
                assert_int_equal(size, most);
        }
        assert_true(own_reservation(0x80400, 1 << 23, 256 * GIB, &most) <= EACH * KIB); /* lazy */
        assert_true(most >= 526336 * KIB);
        assert_true(own_reservation(0x480000, 0, 256 * GIB, &most) <= EACH * KIB); /* somebody else's */
}

static void a_sparse_range_costs_what_was_measured(void **state)
{
        (void)state;
        assert_true(own_tables(0x560000000000, 64 * GIB, OWN_PAGES_BIG) >= 8192 * KIB);
        assert_true(own_tables(0x560000000000, 1024 * GIB, OWN_PAGES_BIG) >= 139264 * KIB);
        assert_true(own_tables(0x560000000000, 1024 * GIB, OWN_PAGES_BIG) <= (139264 + EACH) * KIB);
}

static void every_table_that_is_touched_counts(void **state)
{
        (void)state;
        assert_int_equal(own_tables(0, 0, OWN_PAGES_SMALL), 0);
        assert_int_equal(own_tables(0, 1, OWN_PAGES_SMALL), 12 * KIB);
        assert_int_equal(own_tables(2 * MIB - 1, 2, OWN_PAGES_SMALL), 16 * KIB);
        assert_int_equal(own_tables(512 * MIB - 1, 2, OWN_PAGES_HUGE), 12 * KIB);
        assert_true(own_tables(UINT64_MAX - 1, UINT64_MAX, OWN_PAGES_ANY) > 0); /* past the end: no overflow */
        assert_true(own_tables(0, UINT64_MAX, OWN_PAGES_ANY) >= UINT64_MAX / 512);
        assert_true(own_tables_anywhere(2 * MIB, OWN_PAGES_SMALL) >= own_tables(2 * MIB - 1, 2 * MIB, OWN_PAGES_SMALL));
}

static void groups_channels_and_spaces_have_their_price(void **state)
{
        unsigned char group[32] = { 0 };

        (void)state;
        rm_put32(group, sizeof(group), 12, 1);
        assert_int_equal(own_of_class(0xa06c, group, sizeof(group)), 4416 * KIB);
        assert_int_equal(own_of_class(0xa06c, group, 4), 4416 * KIB); /* too short to tell */
        rm_put32(group, sizeof(group), 12, 11);
        assert_int_equal(own_of_class(0xa06c, group, sizeof(group)), 0);
        assert_int_equal(own_of_class(0xc86f, NULL, 0), 64 * KIB);
        assert_int_equal(own_of_class(0x90f1, NULL, 0), 64 * KIB);
        assert_int_equal(own_of_class(0x2080, NULL, 0), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_reservation_costs_what_was_measured),
                cmocka_unit_test(a_sparse_range_costs_what_was_measured),
                cmocka_unit_test(every_table_that_is_touched_counts),
                cmocka_unit_test(groups_channels_and_spaces_have_their_price),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
