/* SPDX-License-Identifier: Apache-2.0 */
#include "said.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "base/flags.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct values {
        bool is_all;
        const char *dir, *listen;
        nsec period, since;
        unsigned int count;
        int code, operand;
        char out[256], err[256];
};

/* Parses "verb" and the words. */
static struct values parse(const char *words, char *copy, char **argv)
{
        struct values v = { 0 };
        const struct flag flags[] = {
                { "all", 'a', flag_is, &v.is_all, NULL, NULL, NULL },
                { "dir", 0, flag_text, &v.dir, NULL, NULL, NULL },
                { "listen", 0, flag_once, &v.listen, NULL, NULL, NULL },
                { "delay", 'd', flag_span, &v.period, NULL, NULL, NULL },
                { "since", 0, flag_since, &v.since, NULL, NULL, NULL },
                { "number", 'n', flag_count, &v.count, NULL, NULL, NULL },
        };
        struct said out, err;
        int argc = 0;
        char *word;

        (void)sprintf(copy, "verb %s", words);
        while ((word = strsep(&copy, " ")))
                if (*word)
                        argv[argc++] = word;
        argv[argc] = NULL;
        out = said_begin(stdout);
        err = said_begin(stderr);
        v.operand = flags_parse(argc, argv, flags, ARRAY_SIZE(flags), "the usage\n", &v.code);
        said_end(&err, stderr, v.err, sizeof(v.err));
        said_end(&out, stdout, v.out, sizeof(v.out));
        return v;
}

static void options_and_operands_may_be_mixed(void **state)
{
        char copy[128], *argv[16];
        struct values v = parse("one --dir /y --listen :1 --dir /x -a two -d 250ms -n7", copy, argv);

        (void)state;
        assert_true(v.is_all);
        assert_string_equal(v.dir, "/x");
        assert_string_equal(v.listen, ":1");
        assert_int_equal(v.period, 250 * NSEC_PER_MSEC);
        assert_int_equal(v.count, 7);
        assert_string_equal(argv[v.operand], "one");
        assert_string_equal(argv[v.operand + 1], "two");
        assert_null(argv[v.operand + 2]);
}

static void two_dashes_end_the_options(void **state)
{
        char copy[128], *argv[16];
        struct values v = parse("-a -- --dir", copy, argv);

        (void)state;
        assert_true(v.is_all);
        assert_null(v.dir);
        assert_string_equal(argv[v.operand], "--dir");
}

static void help_is_no_failure(void **state)
{
        char copy[128], *argv[16];
        struct values v = parse("--help", copy, argv);

        (void)state;
        assert_int_equal(v.operand, -1);
        assert_int_equal(v.code, VERB_DONE);
        assert_string_equal(v.out, "the usage\n");
        v = parse("-h", copy, argv);
        assert_int_equal(v.code, VERB_DONE);
}

static void one_operand_too_many_is_named(void **state)
{
        char verb[] = "verb", one[] = "one", two[] = "two", *argv[] = { verb, one, two, NULL }, text[256];
        struct said err = said_begin(stderr);
        int code = 7;

        (void)state;
        assert_int_equal(flags_parse_most(3, argv, NULL, 0, "", 2, &code), 1);
        assert_int_equal(flags_parse_most(3, argv, NULL, 0, "", 1, &code), -1);
        said_end(&err, stderr, text, sizeof(text));
        assert_int_equal(code, VERB_USAGE);
        assert_string_equal(text, "sublet: 'two' is one too many ('sublet verb --help')\n");
}

static void what_is_wrong_is_one_line_and_bad_use(void **state)
{
        static const struct {
                const char *words, *text;
        } cases[] = {
                { "--nonsense", "sublet: unknown option --nonsense ('sublet verb --help')\n" },
                { "-x", "sublet: unknown option -x ('sublet verb --help')\n" },
                { "--dir", "sublet: --dir needs a value\n" },
                { "-d", "sublet: -d needs a value\n" },
                { "-d 5parsecs", "sublet: --delay 5parsecs: not a span such as 5s, 250ms or 1h30m\n" },
                { "-d 0", "sublet: --delay 0: not a span such as 5s, 250ms or 1h30m\n" },
                { "--listen a --dir x --listen b", "sublet: --listen b: the second of these, and there can be one\n" },
                { "-n 0", "sublet: --number 0: not a number of 1 to 1000000\n" },
                { "-n -1", "sublet: --number -1: not a number of 1 to 1000000\n" },
                { "--since never",
                  "sublet: --since never: not a time such as 1h (ago), yesterday, 2026-11-21 or '2026-11-21 10:30'\n" },
        };
        char copy[128], *argv[16];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct values v = parse(cases[i].words, copy, argv);

                assert_int_equal(v.operand, -1);
                assert_int_equal(v.code, VERB_USAGE);
                assert_string_equal(v.err, cases[i].text);
                assert_string_equal(v.out, "");
        }
}

static void a_verb_can_parse_twice(void **state)
{
        char copy[128], *argv[16];

        (void)state;
        for (int i = 0; i < 2; i++) {
                struct values v = parse("-a one", copy, argv);

                assert_true(v.is_all);
                assert_string_equal(argv[v.operand], "one");
        }
}

static void help_and_environment_come_from_the_rows(void **state)
{
        bytes size = 1;
        bool is_all = false;
        const struct flag flags[] = {
                { "size", 's', flag_bytes, &size, "SIZE", "of it,\nroughly", "SUBLET_TEST_SIZE" },
                { "all", 0, flag_is, &is_all, NULL, "all of them", NULL },
                { "old", 0, flag_is, &is_all, NULL, NULL, NULL },
        };
        char verb[] = "verb", is_help[] = "--help", is_size[] = "-s2M";
        char *help[] = { verb, is_help, NULL }, *none[] = { verb, NULL }, *given[] = { verb, is_size, NULL };
        char text[512];
        struct said out;
        int code, operand;

        (void)state;
        (void)setenv("SUBLET_TEST_SIZE", "3K", 1);
        assert_int_equal(flags_parse(1, none, flags, ARRAY_SIZE(flags), "", &code), 1);
        assert_int_equal(size, 3 * KIB);
        assert_int_equal(flags_parse(2, given, flags, ARRAY_SIZE(flags), "", &code), 2);
        assert_int_equal(size, 2 * MIB);
        (void)unsetenv("SUBLET_TEST_SIZE");
        out = said_begin(stdout);
        operand = flags_parse(2, help, flags, ARRAY_SIZE(flags), "usage: verb\n\n\f\nThe end.\n", &code);
        said_end(&out, stdout, text, sizeof(text));
        assert_int_equal(operand, -1);
        assert_int_equal(code, VERB_DONE);
        assert_string_equal(text, "usage: verb\n\n"
                                  "  -s, --size SIZE   of it,\n"
                                  "                    roughly ($SUBLET_TEST_SIZE)\n"
                                  "  --all             all of them\n"
                                  "  -h, --help        this text\n"
                                  "\nThe end.\n");
}

static int read_plan(const struct flag *flag, const char *value, struct err *err)
{
        *(const char **)flag->to = value ? value : "nothing";
        return value && !strcmp(value, "bad") ? flag_refuse(flag, value, "a good one", err) : 0;
}

/* Reads "verb" and a word or two as flags_read does, with the first operand ending the options. */
static int read_words(const char *words, const char **kind, const char **plan, struct err *err)
{
        const struct flag flags[] = {
                { "kind", 0, flag_word, kind, "=one|two|three", NULL, NULL },
                { "plan", 0, read_plan, plan, "[=FILE]", NULL, NULL },
        };
        static char copy[64]; /* what is read points into it */
        char *argv[8], *rest = copy;
        int argc = 0;

        (void)snprintf(copy, sizeof(copy), "verb %s", words);
        while ((argv[argc] = strsep(&rest, " ")))
                argc++;
        return flags_read(argc, argv, flags, ARRAY_SIZE(flags), "", true, err);
}

static void a_word_is_one_of_those_in_the_row(void **state)
{
        const char *kind = NULL, *plan = NULL;
        struct err err = { 0 };

        (void)state;
        assert_int_equal(read_words("--kind=two", &kind, &plan, &err), 2);
        assert_string_equal(kind, "two");
        assert_int_equal(read_words("--kind=tw", &kind, &plan, &err), -EINVAL);
        assert_string_equal(err.text, "--kind=tw: one, two or three");
        assert_int_equal(read_words("--kind=one|two", &kind, &plan, &err), -EINVAL);
}

static void a_value_may_be_missing_where_the_row_says_so(void **state)
{
        const char *kind = NULL, *plan = NULL;
        struct err err = { 0 };

        (void)state;
        assert_int_equal(read_words("--plan", &kind, &plan, &err), 2);
        assert_string_equal(plan, "nothing");
        assert_int_equal(read_words("--plan=bad", &kind, &plan, &err), -EINVAL);
        assert_string_equal(err.text, "--plan bad: a good one");
}

static void a_command_ends_the_options(void **state)
{
        const char *kind = NULL, *plan = NULL;
        struct err err = { 0 };

        (void)state;
        assert_int_equal(read_words("command --kind=none --plan", &kind, &plan, &err), 1);
        assert_null(kind);
        assert_null(plan);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(options_and_operands_may_be_mixed),
                cmocka_unit_test(two_dashes_end_the_options),
                cmocka_unit_test(help_is_no_failure),
                cmocka_unit_test(one_operand_too_many_is_named),
                cmocka_unit_test(what_is_wrong_is_one_line_and_bad_use),
                cmocka_unit_test(a_verb_can_parse_twice),
                cmocka_unit_test(a_word_is_one_of_those_in_the_row),
                cmocka_unit_test(a_value_may_be_missing_where_the_row_says_so),
                cmocka_unit_test(a_command_ends_the_options),
                cmocka_unit_test(help_and_environment_come_from_the_rows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
