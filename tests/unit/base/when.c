/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/when.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void spans_are_read_as_people_write_them(void **state)
{
        static const struct {
                const char *text;
                nsec expected;
        } cases[] = {
                { "5s", 5 * NSEC_PER_SEC },
                { "5", 5 * NSEC_PER_SEC },
                { "0", 0 },
                { "0.25", 250 * NSEC_PER_MSEC },
                { "250ms", 250 * NSEC_PER_MSEC },
                { "20us", 20 * NSEC_PER_USEC },
                { "7ns", 7 },
                { "1.5h", 5400 * NSEC_PER_SEC },
                { "1h30m", 5400 * NSEC_PER_SEC },
                { "2d", 2 * 86400 * NSEC_PER_SEC },
                { "1m30s", 90 * NSEC_PER_SEC },
                { "1d1h1m1s1ms1us1ns", 90061001001001 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                nsec span = -1;

                assert_int_equal(duration_parse(cases[i].text, &span), 0);
                assert_int_equal(span, cases[i].expected);
        }
}

static void what_is_no_span_is_refused_and_nothing_written(void **state)
{
        static const char *const bad[] = { "",   "s",   "5x",   "-5s",  "+5s",  "5 s",  " 5s",  "5s ", "1.s",
                                           "1.", ".5s", "1e3s", "1m1h", "1s1s", "1h30", "5ms5", "5S",  "1mm" };
        nsec span = -1;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_int_equal(duration_parse(bad[i], &span), -EINVAL);
        assert_int_equal(duration_parse("36601d", &span), -ERANGE);
        assert_int_equal(duration_parse("99999999999999999999s", &span), -ERANGE);
        assert_int_equal(span, -1);
}

static void a_span_is_said_in_its_largest_unit(void **state)
{
        static const struct {
                nsec span;
                const char *text;
        } cases[] = {
                { 0, "0 s" },
                { -5, "0 s" },
                { 1, "1 ns" },
                { 850 * NSEC_PER_MSEC, "850 ms" },
                { 1999 * NSEC_PER_MSEC, "1999 ms" },
                { NSEC_PER_SEC, "1 s" },
                { 119 * NSEC_PER_SEC, "119 s" },
                { 120 * NSEC_PER_SEC, "2 min" },
                { 7200 * NSEC_PER_SEC, "2 h" },
                { 500 * 86400 * NSEC_PER_SEC, "500 d" },
        };
        char buffer[WHEN_TEXT];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_string_equal(duration_format(cases[i].span, buffer), cases[i].text);
}

static void a_point_in_the_past_is_a_span_a_date_or_the_epochs_seconds(void **state)
{
        const nsec now = 1795233600 * NSEC_PER_SEC; /* 2026-11-21 04:00:00 UTC */
        static const struct {
                const char *text;
                nsec expected;
        } cases[] = {
                { "1h", 1795230000 },
                { "90", 1795233510 },
                { "2026-11-21", 1795219200 },
                { "2026-11-21 03:59", 1795233540 },
                { "2026-11-21T03:59:30", 1795233570 },
                { "2026-11-21T03:59:30Z", 1795233570 },
                { "2024-02-29", 1709164800 },
                { "1795219200", 1795219200 },
        };
        nsec moment = -1;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                assert_int_equal(since_parse(cases[i].text, now, &moment), 0);
                assert_int_equal(moment, cases[i].expected * NSEC_PER_SEC);
        }
        assert_int_equal(since_parse("1795219200.5", now, &moment), 0);
        assert_int_equal(moment, 1795219200 * NSEC_PER_SEC + 500 * NSEC_PER_MSEC);
}

static void a_day_that_there_is_not_is_refused(void **state)
{
        static const char *const bad[] = { "2026-02-31", "2026-13-01", "2026-11-21 25:00", "2026-11",
                                           "tomorrow",   "",           "2026-11-21 04",    "2026-11-21x" };
        nsec moment = -1;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_int_equal(since_parse(bad[i], 1795233600 * NSEC_PER_SEC, &moment), -EINVAL);
        assert_int_equal(since_parse("2h", 3600 * NSEC_PER_SEC, &moment), -ERANGE);
        assert_int_equal(moment, -1);
}

static void a_moment_can_be_read_back(void **state)
{
        char buffer[WHEN_TEXT];
        nsec moment = 0;

        (void)state;
        assert_string_equal(moment_format(1795233599 * NSEC_PER_SEC, buffer), "2026-11-21 03:59:59");
        assert_int_equal(since_parse(buffer, 0, &moment), 0);
        assert_int_equal(moment, 1795233599 * NSEC_PER_SEC);
}

static void a_share_is_a_percentage_with_one_decimal(void **state)
{
        static const struct {
                const char *text;
                int outcome;
                unsigned int permille;
        } cases[] = {
                { "30", 0, 300 },       { "30%", 0, 300 },       { "12.5", 0, 125 },      { "0.1%", 0, 1 },
                { "100", 0, 1000 },     { "100.0%", 0, 1000 },   { "100.1", -ERANGE, 0 }, { "0", -ERANGE, 0 },
                { "101", -ERANGE, 0 },  { "12.55", -EINVAL, 0 }, { "", -EINVAL, 0 },      { "%", -EINVAL, 0 },
                { "-3", -EINVAL, 0 },   { "30 %", -EINVAL, 0 },  { "30%%", -EINVAL, 0 },  { "1e1", -EINVAL, 0 },
                { "half", -EINVAL, 0 },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                unsigned int permille = 0;

                assert_int_equal(permille_parse(cases[i].text, &permille), cases[i].outcome);
                assert_int_equal(permille, cases[i].permille);
        }
}

static void a_share_is_said_as_it_is_written(void **state)
{
        char buffer[WHEN_TEXT];

        (void)state;
        for (unsigned int permille = 1; permille <= 1000; permille++) {
                unsigned int back = 0;

                assert_int_equal(permille_parse(permille_format(permille, buffer), &back), 0);
                assert_int_equal(back, permille);
        }
}

static void today_and_yesterday_begin_at_midnight(void **state)
{
        nsec now = clock_realtime(), today, yesterday;
        char text[WHEN_TEXT];

        (void)state;
        assert_int_equal(since_parse("today", now, &today), 0);
        assert_int_equal(since_parse("yesterday", now, &yesterday), 0);
        assert_string_equal(moment_format(today, text) + 11, "00:00:00");
        assert_string_equal(moment_format(yesterday, text) + 11, "00:00:00");
        assert_true(today <= now && now - today < 24 * 3600 * NSEC_PER_SEC);
        assert_int_equal(today - yesterday, 24 * 3600 * NSEC_PER_SEC); /* UTC */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(spans_are_read_as_people_write_them),
                cmocka_unit_test(what_is_no_span_is_refused_and_nothing_written),
                cmocka_unit_test(a_span_is_said_in_its_largest_unit),
                cmocka_unit_test(a_point_in_the_past_is_a_span_a_date_or_the_epochs_seconds),
                cmocka_unit_test(a_day_that_there_is_not_is_refused),
                cmocka_unit_test(a_moment_can_be_read_back),
                cmocka_unit_test(a_share_is_a_percentage_with_one_decimal),
                cmocka_unit_test(a_share_is_said_as_it_is_written),
                cmocka_unit_test(today_and_yesterday_begin_at_midnight),
        };

        (void)setenv("TZ", "UTC", 1);
        tzset();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
