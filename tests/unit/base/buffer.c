/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/buffer.h"
#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

enum {
        MOST = 1 << 10,
};

static int join(void *context, char *line, size_t size)
{
        assert_int_equal(strlen(line), size);
        (void)strcat(strcat(context, line), "|");
        return strcmp(line, "stop") ? 0 : -ECANCELED;
}

static int piece_put(struct buffer *buffer, const char *text, size_t size, char *joined)
{
        int r = buffer_add(buffer, text, size, MOST);

        return r < 0 ? r : buffer_lines(buffer, join, joined);
}

static void lines_are_whole_wherever_the_pieces_break(void **state)
{
        static const char text[] = "one\n\ntwo three\nfour\n";

        (void)state;
        for (size_t piece = 1; piece <= sizeof(text); piece++) {
                _cleanup_(buffer_done) struct buffer buffer = { 0 };
                char joined[64] = "";

                for (size_t at = 0; at < strlen(text); at += piece) {
                        size_t n = strlen(text) - at < piece ? strlen(text) - at : piece;

                        assert_int_equal(piece_put(&buffer, text + at, n, joined), 0);
                }
                assert_string_equal(joined, "one|two three|four|");
                assert_int_equal(buffer.size, 0);
        }
}

static void what_has_no_end_yet_is_kept(void **state)
{
        _cleanup_(buffer_done) struct buffer buffer = { 0 };
        char joined[64] = "";

        (void)state;
        assert_int_equal(buffer_lines(&buffer, join, joined), 0);
        assert_int_equal(piece_put(&buffer, "whole\nhalf", 10, joined), 0);
        assert_string_equal(joined, "whole|");
        assert_string_equal(buffer.text, "half");
        assert_int_equal(piece_put(&buffer, "\n", 1, joined), 0);
        assert_string_equal(joined, "whole|half|");
}

static void a_line_can_end_it(void **state)
{
        _cleanup_(buffer_done) struct buffer buffer = { 0 };
        char joined[64] = "";

        (void)state;
        assert_int_equal(piece_put(&buffer, "a\nstop\nb\n", 9, joined), -ECANCELED);
        assert_string_equal(joined, "a|stop|");
}

static void more_than_the_bound_is_refused_and_not_added(void **state)
{
        static const char piece[MOST + 1];
        _cleanup_(buffer_done) struct buffer buffer = { 0 };

        (void)state;
        assert_int_equal(buffer_add(&buffer, piece, MOST + 1, MOST), -EMSGSIZE);
        assert_int_equal(buffer_add(&buffer, piece, MOST - 1, MOST), 0);
        assert_int_equal(buffer_add(&buffer, piece, 2, MOST), -EMSGSIZE);
        assert_int_equal(buffer_add(&buffer, "x", 1, MOST), 0);
        assert_int_equal(buffer.size, MOST);
        assert_string_equal(buffer.text + MOST - 1, "x");
}

static void growth_is_what_adding_takes(void **state)
{
        _cleanup_(buffer_done) struct buffer buffer = { 0 };

        (void)state;
        for (size_t n = 0; n < 50; n++) {
                size_t room = buffer.room + buffer_growth(&buffer, n);

                assert_int_equal(buffer_add(&buffer, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", n, SIZE_MAX),
                                 0);
                assert_int_equal(buffer.room, room);
                assert_true(buffer.size < buffer.room);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lines_are_whole_wherever_the_pieces_break),
                cmocka_unit_test(what_has_no_end_yet_is_kept),
                cmocka_unit_test(a_line_can_end_it),
                cmocka_unit_test(more_than_the_bound_is_refused_and_not_added),
                cmocka_unit_test(growth_is_what_adding_takes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
