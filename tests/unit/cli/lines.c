#include "unit.h"

#include "base/cleanup.h"
#include "cli/lines.h"

#include <errno.h>
#include <string.h>

static int join(void *context, char *line)
{
        (void)strcat(strcat(context, line), "|");
        return strcmp(line, "stop") ? 0 : -ECANCELED;
}

static void lines_are_whole_wherever_the_pieces_break(void **state)
{
        static const char text[] = "one\n\ntwo three\nfour\n";

        (void)state;
        for (size_t piece = 1; piece <= sizeof(text); piece++) {
                struct lines lines = { 0 };
                char joined[64] = "";

                for (size_t at = 0; at < strlen(text); at += piece) {
                        size_t n = strlen(text) - at < piece ? strlen(text) - at : piece;

                        assert_int_equal(lines_put(&lines, text + at, n, join, joined), 0);
                }
                assert_string_equal(joined, "one||two three|four|");
                lines_done(&lines);
        }
}

static void what_has_no_end_yet_is_kept(void **state)
{
        struct lines lines = { 0 };
        char joined[64] = "";

        (void)state;
        assert_int_equal(lines_put(&lines, "half", 4, join, joined), 0);
        assert_string_equal(joined, "");
        lines_done(&lines);
}

static void who_takes_them_can_stop(void **state)
{
        struct lines lines = { 0 };
        char joined[64] = "";

        (void)state;
        assert_int_equal(lines_put(&lines, "a\nstop\nb\n", 9, join, joined), -ECANCELED);
        assert_string_equal(joined, "a|stop|");
        lines_done(&lines);
}

static void a_line_without_end_is_refused(void **state)
{
        static char piece[1 << 16];
        struct lines lines = { 0 };
        char joined[64] = "";
        int r = 0;

        (void)state;
        (void)memset(piece, 'x', sizeof(piece));
        for (int i = 0; i < LINES_MAX / (int)sizeof(piece) + 1 && r == 0; i++)
                r = lines_put(&lines, piece, sizeof(piece), join, joined);
        assert_int_equal(r, -EMSGSIZE);
        lines_done(&lines);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lines_are_whole_wherever_the_pieces_break),
                cmocka_unit_test(what_has_no_end_yet_is_kept),
                cmocka_unit_test(who_takes_them_can_stop),
                cmocka_unit_test(a_line_without_end_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
