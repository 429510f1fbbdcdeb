/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

struct size_case {
        const char *text;
        bytes whole, expected;
};

static void sizes_are_read_as_people_write_them(void **state)
{
        static const struct size_case cases[] = {
                { "1B", 0, 1 },
                { "1048576", 0, 1048576 },
                { "4096B", 0, 4096 },
                { "8G", 0, 8 * GIB },
                { "8g", 0, 8 * GIB },
                { "8GB", 0, 8 * GIB },
                { "8GiB", 0, 8 * GIB },
                { "8gib", 0, 8 * GIB },
                { "8Gi", 0, 8 * GIB },
                { "512M", 0, 512 * MIB },
                { "64k", 0, 64 * KIB },
                { "2T", 0, 2048 * GIB },
                { "1P", 0, 1024 * 1024 * GIB },
                { "7E", 0, (bytes)7 << 60 },
                { "1.5G", 0, 1536 * MIB },
                { "0.5K", 0, 512 },
                { "1.25KiB", 0, 1280 },
                { "007K", 0, 7 * KIB },
                { "8 GiB", 0, 8 * GIB },
                { "1.0K", 0, KIB },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                bytes size = 0;

                assert_int_equal(bytes_parse(cases[i].text, cases[i].whole, &size), 0);
                assert_int_equal(size, cases[i].expected);
        }
}

static void a_percentage_is_of_the_whole(void **state)
{
        static const struct size_case cases[] = {
                { "25%", 1000, 250 },    { "100%", 1000, 1000 }, { "100.000%", 1000, 1000 },       { "0.1%", 1000, 1 },
                { "33.3 %", 1000, 333 }, { "50%", 3, 1 },        { "100%", INT64_MAX, INT64_MAX },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                bytes size = 0;

                assert_int_equal(bytes_parse(cases[i].text, cases[i].whole, &size), 0);
                assert_int_equal(size, cases[i].expected);
        }
}

static void what_is_no_size_is_refused_and_nothing_written(void **state)
{
        static const char *const texts[] = {
                "",       " ",    "-1",  "+1",  "8X",  "1e9",  "0x10", "G",   ".5G", "1.",   "1.G",        "1..5G",
                "1.5.5G", "1,5G", " 8G", "8G ", "8 ",  "8  G", "8\tG", "8\n", "8GG", "8iB",  "8Gib2",      "8BB",
                "8 G B",  "%",    "-5%", "5%%", "5%G", "1.5",  "1.5B", "nan", "inf", "\xff", "8\xc2\xa0G",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                bytes size = 7;

                assert_int_equal(bytes_parse(texts[i], 1000, &size), -EINVAL);
                assert_int_equal(size, 7);
        }
}

static void what_is_out_of_range_is_refused_and_nothing_written(void **state)
{
        static const struct size_case cases[] = {
                { "0", 0, 0 },
                { "0G", 0, 0 },
                { "0.0000001K", 0, 0 },
                { "0%", 1000, 0 },
                { "50%", 0, 0 },
                { "1%", 99, 0 },
                { "101%", 1000, 0 },
                { "100.000001%", 1000, 0 },
                { "99999999999999999999G", 0, 0 },
                { "99999999999999999999", 0, 0 },
                { "9223372036854775808", 0, 0 },
                { "8192P", 0, 0 },
                { "8E", 0, 0 },
                { "9223372036854775807P", 0, 0 },
                { "18446744073709551615P", 0, 0 },
                { "100%", UINT64_MAX, 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                bytes size = 7;

                assert_int_equal(bytes_parse(cases[i].text, cases[i].whole, &size), -ERANGE);
                assert_int_equal(size, 7);
        }
}

static void the_largest_size_can_be_written(void **state)
{
        bytes size;

        (void)state;
        assert_int_equal(bytes_parse("9223372036854775807", 0, &size), 0);
        assert_int_equal(size, INT64_MAX);
        assert_int_equal(bytes_parse("8191.999999P", 0, &size), 0);
        assert_true(size < INT64_MAX);
        assert_int_equal(bytes_parse("20000000000000", 0, &size), 0);
        assert_int_equal(size, 20000000000000);
}

static void sizes_are_written_short(void **state)
{
        static const struct size_case cases[] = {
                { "0 B", 0, 0 },
                { "1 B", 0, 1 },
                { "1023 B", 0, 1023 },
                { "1 KiB", 0, KIB },
                { "1.5 KiB", 0, 1536 },
                { "7.5 GiB", 0, 7680 * MIB },
                { "7.9 GiB", 0, 8 * GIB - 1 },
                { "512 MiB", 0, 512 * MIB },
                { "143 GiB", 0, 143 * GIB + 900 * MIB },
                { "15.9 EiB", 0, UINT64_MAX },
        };
        char buffer[BYTES_TEXT];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_string_equal(bytes_format(cases[i].expected, buffer), cases[i].text);
}

/* Rounded down: at most a tenth of the unit is lost below 100 of it, one of it above. */
static void what_was_written_can_be_read(void **state)
{
        char buffer[BYTES_TEXT];

        (void)state;
        for (bytes size = 1; size < INT64_MAX / 3; size = size * 3 + 1) {
                bytes back;

                assert_int_equal(bytes_parse(bytes_format(size, buffer), 0, &back), 0);
                assert_true(back <= size);
                assert_true(size - back <= size / 10);
        }
}

static void numbers_are_decimal_or_hexadecimal(void **state)
{
        static const struct size_case cases[] = {
                { "0", 0, 0 },      { "10", 0, 10 },
                { "010", 0, 10 },   { "0x10", 0, 16 },
                { "0XfF", 0, 255 }, { "18446744073709551615", 0, UINT64_MAX },
                { "0x0", 0, 0 },    { "0xffffffffffffffff", 0, UINT64_MAX },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t number = 7;

                assert_int_equal(number_parse(cases[i].text, &number), 0);
                assert_int_equal(number, cases[i].expected);
        }
}

static void what_is_no_number_is_refused(void **state)
{
        static const char *const texts[] = {
                "",    " 1",  "1 ",  "-1",  "+1",    "x10", "0x",  "0x-1",
                "0x ", "0xg", "1e3", "1.0", "0x0x1", "ff",  "1_0", "0x+1",
        };
        uint64_t number = 7;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                assert_int_equal(number_parse(texts[i], &number), -EINVAL);
        assert_int_equal(number_parse("18446744073709551616", &number), -ERANGE);
        assert_int_equal(number_parse("0x10000000000000000", &number), -ERANGE);
        assert_int_equal(number, 7);
}

static void a_forgotten_unit_is_refused_and_named(void **state)
{
        static const struct {
                const char *text, *meant;
        } cases[] = { { "8", "8G?" }, { "1023", "1023G?" }, { "4096", "4096M?" }, { "1048575", "1048575M?" } };
        static const char *const others[] = { "8X", "0", "1048576", "8B", "", "99999999999999999999999" };
        char buffer[BYTES_WRONG];
        bytes size;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                assert_int_equal(bytes_parse(cases[i].text, 0, &size), -EINVAL);
                assert_non_null(strstr(bytes_wrong(cases[i].text, "x", buffer), cases[i].meant));
        }
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                assert_string_equal(bytes_wrong(others[i], "x", buffer), "x");
        assert_int_equal(bytes_parse("8B", 0, &size), 0);
}

static void a_word_is_like_a_name_with_a_slip_or_two(void **state)
{
        static const char *const like[][2] = { { "rum", "run" },       { "evnets", "events" }, { "memry", "memory" },
                                               { "lsit", "list" },     { "shares", "share" },  { "usge", "usage" },
                                               { "deamon", "daemon" }, { "sp", "ps" } };
        static const char *const unlike[][2] = { { "kill", "run" },  { "x", "ps" },
                                                 { "", "ps" },       { "start", "set" },
                                                 { "top", "usage" }, { "a word of more than 31 letters..", "a" } };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(like); i++)
                assert_true(text_is_like(like[i][0], like[i][1]));
        for (size_t i = 0; i < ARRAY_SIZE(unlike); i++)
                assert_false(text_is_like(unlike[i][0], unlike[i][1]));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(sizes_are_read_as_people_write_them),
                cmocka_unit_test(a_percentage_is_of_the_whole),
                cmocka_unit_test(what_is_no_size_is_refused_and_nothing_written),
                cmocka_unit_test(what_is_out_of_range_is_refused_and_nothing_written),
                cmocka_unit_test(the_largest_size_can_be_written),
                cmocka_unit_test(sizes_are_written_short),
                cmocka_unit_test(what_was_written_can_be_read),
                cmocka_unit_test(numbers_are_decimal_or_hexadecimal),
                cmocka_unit_test(what_is_no_number_is_refused),
                cmocka_unit_test(a_forgotten_unit_is_refused_and_named),
                cmocka_unit_test(a_word_is_like_a_name_with_a_slip_or_two),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
