/* SPDX-License-Identifier: Apache-2.0 */
#include "said.h"

#include "cli/frame.h"

#include <locale.h>
#include <string.h>

/* What a frame of one row looks like. */
static void looks_like(struct frame *frame, const char *expected)
{
        struct said said = said_begin(stdout);
        char text[1024];

        frame_print(frame, stdout);
        said_end(&said, stdout, text, sizeof(text));
        assert_string_equal(text, expected);
}

static struct frame frame_of(int n_rows, int n_columns, bool is_plain)
{
        struct frame frame = { .is_plain = is_plain };

        assert_int_equal(frame_reset(&frame, n_rows, n_columns), 0);
        return frame;
}

static void text_is_cut_off_at_its_width_and_at_the_edge(void **state)
{
        struct frame frame = frame_of(2, 10, false);

        (void)state;
        frame_text(&frame, 0, 0, 3, STYLE_PLAIN, "abcdef");
        frame_text(&frame, 0, 8, 99, STYLE_PLAIN, "xyz");
        frame_text(&frame, 1, -1, 99, STYLE_PLAIN, "left");
        frame_text(&frame, 2, 0, 99, STYLE_PLAIN, "below");
        frame_text(&frame, -1, 0, 99, STYLE_PLAIN, "above");
        looks_like(&frame, "abc     xy\neft\n");
        frame_done(&frame);
}

static void every_character_is_one_column(void **state)
{
        struct frame frame = frame_of(1, 12, false);

        (void)state;
        frame_text(&frame, 0, 0, 12, STYLE_PLAIN, "\303\251\346\227\245\033[2J\377");
        looks_like(&frame, "\303\251??[2J?\n");
        frame_right(&frame, 0, 9, 3, STYLE_PLAIN, "\303\251");
        looks_like(&frame, "\303\251??[2J?    \303\251\n");
        frame_done(&frame);
}

static void a_bar_is_filled_to_an_eighth_of_a_column(void **state)
{
        static const struct {
                double part, mark, stop;
                const char *text, *plain;
        } cases[] = {
                { 0, 0, 0, "··········\n", "..........\n" },        { 1000, 0, 0, "██████████\n", "##########\n" },
                { 2000, 0, 0, "██████████\n", "##########\n" },     { 312, 0, 0, "███▏······\n", "###.......\n" },
                { 375, 0, 0, "███▊······\n", "####......\n" },      { 300, 300, 500, "███│·┫····\n", "###|.]....\n" },
                { 900, 300, 1000, "███│█████·\n", "###|#####.\n" }, { 0, 999, 0, "·········│\n", ".........|\n" },
        };

        (void)state;
        for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
                struct frame frame = frame_of(1, 10, i % 2);

                frame_bar(&frame, 0, 0, 10, STYLE_GOOD, cases[i / 2].part, cases[i / 2].mark, cases[i / 2].stop);
                looks_like(&frame, i % 2 ? cases[i / 2].plain : cases[i / 2].text);
                frame_done(&frame);
        }
}

static void a_spark_is_the_mean_of_its_part(void **state)
{
        const double values[8] = { -1, -1, 0, 1000, 500, 500, 1, -1 };
        struct frame frame = frame_of(1, 12, false);

        (void)state;
        frame_spark(&frame, 0, 0, 8, values, 8);
        looks_like(&frame, "   █▄▄▁\n"); /* nothing is seen of what was not, and of 0; a little is not nothing */
        assert_int_equal(frame_reset(&frame, 1, 12), 0);
        frame_spark(&frame, 0, 0, 4, values, 8);
        looks_like(&frame, " ▄▄▁\n");
        assert_int_equal(frame_reset(&frame, 1, 12), 0);
        frame_spark(&frame, 0, 0, 12, values, 8); /* wider than values: at its right end */
        looks_like(&frame, "       █▄▄▁\n");
        frame_done(&frame);
}

static void a_frame_can_be_nothing(void **state)
{
        struct frame frame = frame_of(0, 0, false);

        (void)state;
        frame_text(&frame, 0, 0, 5, STYLE_PLAIN, "x");
        frame_bar(&frame, 0, 0, 5, STYLE_PLAIN, 500, 300, 0);
        frame_paint(&frame, 0, STYLE_BAD);
        looks_like(&frame, "");
        frame_done(&frame);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(text_is_cut_off_at_its_width_and_at_the_edge),
                cmocka_unit_test(every_character_is_one_column),
                cmocka_unit_test(a_bar_is_filled_to_an_eighth_of_a_column),
                cmocka_unit_test(a_spark_is_the_mean_of_its_part),
                cmocka_unit_test(a_frame_can_be_nothing),
        };

        (void)setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
