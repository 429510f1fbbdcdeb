/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "ask/field.h"

#include <locale.h>
#include <string.h>

static void what_an_answer_does_not_say_is_nothing(void **state)
{
        json_t *object = json_loads("{\"n\": -3, \"real\": 2.75, \"text\": 7, \"is\": 1, \"list\": {}}", 0, NULL);

        (void)state;
        assert_int_equal(field_number(object, "n"), 0);
        assert_int_equal(field_number(object, "real"), 2);
        assert_int_equal(field_number(object, "no"), 0);
        assert_int_equal(field_number(NULL, "no"), 0);
        assert_string_equal(field_text(object, "text"), "");
        assert_string_equal(field_text(NULL, "text"), "");
        assert_false(field_is(object, "is"));
        assert_null(field_array(object, "list"));
        json_decref(object);
}

static void text_of_others_cannot_steer_a_terminal(void **state)
{
        static const struct {
                const char *text, *clean;
        } cases[] = {
                { "plain", "plain" },
                { "\033[2J\033]0;title\007", "?[2J?]0;title?" },
                { "two\nlines\r\t", "two?lines??" },
                { "caf\303\251", "caf\303\251" },
                { "\302\233[31m", "?[31m" },   /* CSI as one character of C1 */
                { "\342\200\256abc", "?abc" }, /* right-to-left override: does not print */
                { "cut \303", "cut ?" },
                { "bad \377\376", "bad ??" },
        };
        char buffer[64];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_string_equal(field_clean(cases[i].text, buffer, sizeof(buffer)), cases[i].clean);
}

static void a_buffer_holds_whole_characters_only(void **state)
{
        char buffer[5];

        (void)state;
        assert_string_equal(field_clean("abc\303\251", buffer, sizeof(buffer)), "abc");
        assert_string_equal(field_clean("abcdef", buffer, sizeof(buffer)), "abcd");
        assert_string_equal(field_clean("\033\033\033\033\033\033", buffer, sizeof(buffer)), "????");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_an_answer_does_not_say_is_nothing),
                cmocka_unit_test(text_of_others_cannot_steer_a_terminal),
                cmocka_unit_test(a_buffer_holds_whole_characters_only),
        };

        (void)setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
