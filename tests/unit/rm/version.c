/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "rm/version.h"

#include <errno.h>

static struct rm_version version(const char *text)
{
        struct rm_version v;

        assert_int_equal(rm_version_parse(text, &v), 0);
        return v;
}

static void a_version_has_two_or_three_numbers(void **state)
{
        struct rm_version v = version("580.159.04");

        (void)state;
        assert_int_equal(v.branch, 580);
        assert_int_equal(v.minor, 159);
        assert_int_equal(v.patch, 4);

        v = version("565.77");
        assert_int_equal(v.branch, 565);
        assert_int_equal(v.minor, 77);
        assert_int_equal(v.patch, 0);
}

static void nothing_else_is_a_version(void **state)
{
        static const char *const bad[] = {
                "",
                "580",
                "580.",
                ".159",
                "580..04",
                "580.159.",
                "580.x",
                "580.159.04.",
                "580.159.04x",
                " 580.159",
                "580.159.04 ",
                "580.159.04\n",
                "-580.1",
                "+580.1",
                "0x244.1",
                "580,159,04",
                "580.159.04.1",
                "v580.159",
                "580.1.-",
                "58000.1.2",
                "580.15900.1",
                "580.1.00004",
                "99999999999999999999.1.1",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct rm_version v = { 1, 2, 3 };

                assert_int_equal(rm_version_parse(bad[i], &v), -EINVAL);
                assert_int_equal(v.branch, 1); /* untouched */
                assert_int_equal(v.patch, 3);
        }
}

static void versions_are_ordered_by_number_and_not_by_text(void **state)
{
        static const char *const order[] = { "525.53",     "525.60.11",  "525.147.05", "535.54.03",
                                             "535.98",     "535.104.05", "550.54.14",  "550.54.15",
                                             "580.159.03", "580.159.04", "1000.1" };

        (void)state;
        for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
                for (size_t j = 0; j < sizeof(order) / sizeof(order[0]); j++) {
                        int r = rm_version_cmp(version(order[i]), version(order[j]));

                        assert_true(i < j ? r < 0 : i > j ? r > 0 : r == 0);
                }
        }
}

static void a_released_and_read_version_is_known(void **state)
{
        static const char *const known[] = {
                "525.53",     "525.60.13",  "525.147.05", "535.54.03", "535.86.05",  "535.104.05", "535.288.01",
                "545.23.06",  "545.29.06",  "550.54.14",  "550.90.07", "550.163.01", "555.42.02",  "555.58.02",
                "560.28.03",  "560.35.03",  "565.57.01",  "565.77",    "570.86.15",  "570.86.16",  "570.124.04",
                "570.211.01", "575.51.02",  "575.64.05",  "580.65.06", "580.82.09",  "580.95.05",  "580.126.09",
                "580.142",    "580.159.03", "580.159.04", "590.44.01", "590.48.01",  "595.44.02",  "595.45.04",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                assert_true(rm_version_is_known(version(known[i])));
}

static void a_developer_tag_between_releases_is_unknown(void **state)
{
        static const char *const tags[] = {
                "525.47.35",  "535.43.02",  "535.43.28", "550.40.07", "550.40.85",
                "570.123.01", "570.123.19", "580.94.02", "580.94.18",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
                assert_false(rm_version_is_known(version(tags[i])));
}

static void neither_the_next_patch_nor_another_branch_is_known(void **state)
{
        static const char *const unread[] = {
                "0.0",       "470.256.02", "515.105.01", "520.61.05",  "525.52.99", "525.147.06",
                "530.41.03", "535.54.02",  "535.288.02", "550.163.02", "570.86.17", "570.211.02",
                "580.65.05", "580.82.10",  "580.95.04",  "580.159.05", "580.160",   "585.1",
                "590.48.02", "595.45.05",  "600.1.1",    "610.43.02",  "9999.9999",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(unread) / sizeof(unread[0]); i++)
                assert_false(rm_version_is_known(version(unread[i])));
}

static void the_ranges_are_in_order_and_known_to_their_ends(void **state)
{
        struct rm_version first, last, before = { 0 };
        size_t n = 0;

        (void)state;
        for (; rm_version_range(n, &first, &last); n++, before = last) {
                assert_true(rm_version_cmp(before, first) < 0 && rm_version_cmp(first, last) <= 0);
                assert_true(rm_version_is_known(first) && rm_version_is_known(last));
        }
        assert_true(n > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_version_has_two_or_three_numbers),
                cmocka_unit_test(nothing_else_is_a_version),
                cmocka_unit_test(versions_are_ordered_by_number_and_not_by_text),
                cmocka_unit_test(a_released_and_read_version_is_known),
                cmocka_unit_test(a_developer_tag_between_releases_is_unknown),
                cmocka_unit_test(neither_the_next_patch_nor_another_branch_is_known),
                cmocka_unit_test(the_ranges_are_in_order_and_known_to_their_ends),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
