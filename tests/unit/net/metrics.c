/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "net/metrics.h"

#include "base/cleanup.h"

#include <string.h>

static char *text;
static size_t size;
static FILE *to;

static int open_text(void **state)
{
        (void)state;
        to = open_memstream(&text, &size);
        return to ? 0 : -1;
}

static int close_text(void **state)
{
        (void)state;
        (void)fclose(to);
        free(text);
        return 0;
}

static const char *written(void)
{
        (void)fflush(to);
        return text;
}

static void a_family_begins_with_its_help_and_type(void **state)
{
        (void)state;
        metrics_head(to, "a_total", "counter", "Help.");
        metrics_head(to, "b", "gauge", NULL);
        assert_string_equal(written(), "# HELP a_total Help.\n# TYPE a_total counter\n# TYPE b gauge\n");
}

static void labels_are_escaped_and_whole_numbers_are_whole(void **state)
{
        (void)state;
        metrics_value(to, "a", 3, NULL);
        metrics_value(to, "a", 0.25, "x", "1", NULL);
        metrics_value(to, "a", 143771e6, "x", "q\"b\\n\n", "y", "", NULL);
        assert_string_equal(written(), "a 3\n"
                                       "a{x=\"1\"} 0.250000000\n"
                                       "a{x=\"q\\\"b\\\\n\\n\",y=\"\"} 143771000000\n");
}

static void a_label_without_a_value_is_left_out(void **state)
{
        const struct metrics_label labels[] = { { "x", NULL }, { "y", "1" }, { "z", NULL }, { "w", "" } };

        (void)state;
        metrics_series(to, "a", 1, labels, ARRAY_SIZE(labels));
        metrics_series(to, "b", 1, labels, 1);
        assert_string_equal(written(), "a{y=\"1\",w=\"\"} 1\nb 1\n");
}

/* One such byte, and Prometheus takes nothing of the answer. */
static void a_label_is_utf_8_whatever_its_value_was(void **state)
{
#define LOST "\xef\xbf\xbd"
        (void)state;
        metrics_value(to, "a", 1, "x", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", NULL);
        metrics_value(to, "b", 1, "x", "\xff-\xc3", NULL);                 /* no character; one that is cut short */
        metrics_value(to, "c", 1, "x", "\xed\xa0\x80", NULL);              /* a surrogate */
        metrics_value(to, "d", 1, "x", "\xc0\xaf-\xf4\x90\x80\x80", NULL); /* overlong; beyond the last */
        assert_string_equal(written(), "a{x=\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"} 1\n"
                                       "b{x=\"" LOST "-" LOST "\"} 1\n"
                                       "c{x=\"" LOST LOST LOST "\"} 1\n"
                                       "d{x=\"" LOST LOST "-" LOST LOST LOST LOST "\"} 1\n");
#undef LOST
}

static void a_histogram_counts_what_is_at_most_its_bound(void **state)
{
        static const double bounds[] = { 0.0005, 1 };
        static const uint64_t counts[] = { 2, 3, 4 };
        const struct metrics_histogram histogram = { bounds, counts, ARRAY_SIZE(bounds), 12.5 };

        (void)state;
        metrics_histogram(to, "h", &histogram, NULL, NULL);
        metrics_histogram(to, "h", &histogram, "verb", "x");
        assert_string_equal(written(), "h_bucket{le=\"0.0005\"} 2\nh_bucket{le=\"1\"} 5\nh_bucket{le=\"+Inf\"} 9\n"
                                       "h_sum 12.500000000\nh_count 9\n"
                                       "h_bucket{verb=\"x\",le=\"0.0005\"} 2\nh_bucket{verb=\"x\",le=\"1\"} 5\n"
                                       "h_bucket{verb=\"x\",le=\"+Inf\"} 9\n"
                                       "h_sum{verb=\"x\"} 12.500000000\nh_count{verb=\"x\"} 9\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_family_begins_with_its_help_and_type, open_text, close_text),
                cmocka_unit_test_setup_teardown(labels_are_escaped_and_whole_numbers_are_whole, open_text, close_text),
                cmocka_unit_test_setup_teardown(a_label_without_a_value_is_left_out, open_text, close_text),
                cmocka_unit_test_setup_teardown(a_label_is_utf_8_whatever_its_value_was, open_text, close_text),
                cmocka_unit_test_setup_teardown(a_histogram_counts_what_is_at_most_its_bound, open_text, close_text),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
