/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of what the driver takes without being asked is never below what it was seen to take:
 * tests/gpu/ownmem.sh,
 * H200, 580.159.04. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/own_table.h"
#include "rm/call.h"
#include "rm/numbers.h"

#include <errno.h>
#include <string.h>

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
        assert_int_equal(own_of_class(NULL, 0xa06c, group, sizeof(group)), 4416 * KIB);
        assert_int_equal(own_of_class(NULL, 0xa06c, group, 4), 4416 * KIB); /* too short to tell */
        rm_put32(group, sizeof(group), 12, 11);
        assert_int_equal(own_of_class(NULL, 0xa06c, group, sizeof(group)), 0);
        assert_int_equal(own_of_class(NULL, 0xc86f, NULL, 0), 64 * KIB);
        assert_int_equal(own_of_class(NULL, 0x90f1, NULL, 0), 64 * KIB);
        assert_int_equal(own_of_class(NULL, 0x2080, NULL, 0), 0);
}

static void a_device_without_rows_or_a_table_is_charged_the_largest_known(void **state)
{
        struct lease_own own;

        (void)state;
        own_known(0x180, "580.159.04", &own);
        assert_true(own.of[OWN_group].is_known && own.of[OWN_client].is_known);
        assert_int_equal(own_of_kind(&own, OWN_group), 4416 * KIB);
        own_known(0x1a0, "580.159.04", &own);
        for (enum own_kind kind = 0; kind < OWN_KINDS; kind++)
                assert_true(!own.of[kind].is_known && own_of_kind(&own, kind) == own_largest(kind));
        own_known(0x180, "580.159.03", &own);
        assert_false(own.of[OWN_group].is_known);
        assert_int_equal(own_of_class(&own, 0xa06c, NULL, 0), own_largest(OWN_group));
}

static void what_was_measured_is_charged_more_or_less(void **state)
{
        struct lease_own own = { 0 };

        (void)state;
        own.of[OWN_group].is_known = own.of[OWN_client].is_known = true;
        own.of[OWN_group].size = 8 * MIB;
        own.of[OWN_client].size = 96 * KIB;
        assert_int_equal(own_of_class(&own, 0xa06c, NULL, 0), 8 * MIB);
        assert_int_equal(own_of_class(&own, 0x80, NULL, 0), 96 * KIB);
        assert_int_equal(own_of_class(&own, 0xc86f, NULL, 0), own_largest(OWN_channel));
        own.of[OWN_group].size = 0;
        assert_int_equal(own_of_class(&own, 0xa06c, NULL, 0), 0);
}

static int parse(const char *text, struct own_table *ret)
{
        struct err err = { 0 };
        int r = own_table_parse(text, strlen(text), ret, &err);

        assert_true(r == 0 || err.text[0]);
        return r;
}

static void a_table_is_read_whole_or_refused(void **state)
{
        static const char *const wrong[] = {
                "",
                "own-memory 2\nrelease 1\nmodel A\narchitecture 1\n",
                "own-memory 0\nrelease 1\nmodel A\narchitecture 1\n",
                "own-memory 1\nmodel A\narchitecture 1\n",
                "own-memory 1\nrelease 1\nmodel A\n",
                "own-memory 1\nrelease 1\nmodel A\nmodel B\narchitecture 1\n",
                "own-memory 1\nrelease 1\nmodel A\narchitecture 1\nmodel A\narchitecture 2\n",
                "own-memory 1\nrelease 1\nmodel A\narchitecture 1\ngroup 1\ngroup 2\n",
                "own-memory 1\nrelease 1\nmodel A\narchitecture 1\ngroup -1\n",
                "own-memory 1\nrelease 1\nmodel A\narchitecture 1\ngroup 1048577\n",
                "own-memory 1\nrelease 1\nmodel A\narchitecture 1\ngroup 99999999999999999999\n",
                "own-memory 1\nrelease 1\nmodel A\narchitecture 0\n",
                "own-memory 1\nrelease 1\ngroup 1\nmodel A\narchitecture 1\n",
        };
        struct own_table table = { .n = 7 };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                assert_int_equal(parse(wrong[i], &table), -EINVAL);
        assert_int_equal(table.n, 7); /* not touched */
        assert_int_equal(parse("# x\n\nown-memory 1\nrelease 580.1\nmodel A B\narchitecture 0x1A\n", &table), -EINVAL);
        assert_int_equal(
                parse("# x\n\nown-memory 1\nrelease 580.1\nmodel A B\narchitecture 0x1a\nchannel 65\n", &table), 0);
        assert_int_equal(table.models[0].own.of[OWN_channel].size, 65 * KIB);
        assert_false(table.models[0].own.of[OWN_group].is_known);
        assert_non_null(own_table_model(&table, "A B", 0x1a));
        assert_null(own_table_model(&table, "A B", 0x1b));
        assert_null(own_table_model(&table, "A", 0x1a));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_reservation_costs_what_was_measured),
                cmocka_unit_test(a_sparse_range_costs_what_was_measured),
                cmocka_unit_test(every_table_that_is_touched_counts),
                cmocka_unit_test(groups_channels_and_spaces_have_their_price),
                cmocka_unit_test(a_device_without_rows_or_a_table_is_charged_the_largest_known),
                cmocka_unit_test(what_was_measured_is_charged_more_or_less),
                cmocka_unit_test(a_table_is_read_whole_or_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
