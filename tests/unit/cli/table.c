/* SPDX-License-Identifier: Apache-2.0 */
#include "said.h"

#include "cli/table.h"

#include <locale.h>
#include <string.h>

static void print(struct table *table, char *ret, size_t size)
{
        struct said said = said_begin(stdout);

        assert_int_equal(table_print(table, stdout), 0);
        said_end(&said, stdout, ret, size);
        table_done(table);
}

static void a_column_is_as_wide_as_its_widest_cell(void **state)
{
        struct table table;
        char text[256];

        (void)state;
        table_init(&table, "NAME", "SIZE>", "WHAT", NULL);
        table_row(&table, "a", "8 GiB", "x", NULL);
        table_row(&table, "a-long-name", "1 B", "a longer text", NULL);
        print(&table, text, sizeof(text));
        assert_string_equal(text, "NAME          SIZE  WHAT\n"
                                  "a            8 GiB  x\n"
                                  "a-long-name    1 B  a longer text\n");
}

static void width_is_what_is_seen_not_bytes(void **state)
{
        struct table table;
        char text[256];

        (void)state;
        table_init(&table, "NAME", "N>", NULL);
        table_row(&table, "caf\303\251", "1", NULL);
        table_row(&table, "\346\227\245\346\234\254", "2", NULL); /* two characters, four columns */
        table_row(&table, "\033[1mx", "3", NULL);
        print(&table, text, sizeof(text));
        assert_string_equal(text, "NAME   N\n"
                                  "caf\303\251   1\n"
                                  "\346\227\245\346\234\254   2\n"
                                  "?[1mx  3\n");
}

static void lines_do_not_end_in_blanks(void **state)
{
        struct table table;
        char text[256];

        (void)state;
        table_init(&table, "A", "B", "C", NULL);
        table_row(&table, "1", "", "", NULL);
        table_row(&table, "1", "22", NULL);
        print(&table, text, sizeof(text));
        assert_string_equal(text, "A  B   C\n1\n1  22\n");
}

static void a_column_of_which_nothing_is_said_is_left_out(void **state)
{
        struct table table;
        char text[256];

        (void)state;
        table_init(&table, "A", "PART>?", "C", "LAST?", NULL);
        table_row(&table, "1", "-", "x", "-", NULL);
        table_row(&table, "2", "-", "y", "-", NULL);
        print(&table, text, sizeof(text));
        assert_string_equal(text, "A  C\n1  x\n2  y\n");

        table_init(&table, "A", "PART>?", "C", "LAST?", NULL);
        table_row(&table, "1", "-", "x", "-", NULL);
        table_row(&table, "2", "25%", "-", "-", NULL);
        table_row(&table, "3", "-", "-", "-", NULL);
        print(&table, text, sizeof(text));
        assert_string_equal(text, "A  PART  C\n1     -  x\n2   25%  -\n3     -  -\n");
}

static void whole_columns_go_where_there_is_no_room(void **state)
{
        static const char *const least[] = { "SMALL", "NOWHERE", "WIDE", NULL };
        struct table table;
        char text[256];

        (void)state;
        for (int width = 1; width <= 30; width++) {
                table_init(&table, "NAME", "N>", "NONE?", "SMALL>", "WIDE", NULL);
                table_row(&table, "x", "12", "-", "7", "a-wide-one", NULL);
                table_fit(&table, width, least);
                print(&table, text, sizeof(text));
                assert_string_equal(text, width >= 27 ? "NAME   N  SMALL  WIDE\nx     12      7  a-wide-one\n" :
                                          width >= 20 ? "NAME   N  WIDE\nx     12  a-wide-one\n" :
                                          width >= 15 ? "NAME   N  SMALL\nx     12      7\n" :
                                                        "NAME   N\nx     12\n");
        }
}

static void there_may_be_many_rows(void **state)
{
        struct table table;
        static char text[16384];

        (void)state;
        table_init(&table, "N", NULL);
        for (int i = 0; i < 1000; i++)
                table_row(&table, "x", NULL);
        print(&table, text, sizeof(text));
        assert_int_equal(strlen(text), 2 * 1001);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_column_is_as_wide_as_its_widest_cell),
                cmocka_unit_test(width_is_what_is_seen_not_bytes),
                cmocka_unit_test(lines_do_not_end_in_blanks),
                cmocka_unit_test(a_column_of_which_nothing_is_said_is_left_out),
                cmocka_unit_test(whole_columns_go_where_there_is_no_room),
                cmocka_unit_test(there_may_be_many_rows),
        };

        (void)setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
