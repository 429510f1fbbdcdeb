/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flags.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "base/when.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        FLAGS_MAX = 40,
        LEFT = 64,       /* of a row of the help */
        LONG_ONLY = 256, /* getopt's value of the first row */
        COUNT_MAX = 1000000,
};

int flag_refuse(const struct flag *flag, const char *value, const char *expected, struct err *err)
{
        return err_say(err, -EINVAL, "--%s%s%s: %s", flag->name, flag->argument && *flag->argument == '=' ? "=" : " ",
                       value, expected);
}

int flag_is(const struct flag *flag, const char *value, struct err *err)
{
        (void)value;
        (void)err;
        *(bool *)flag->to = true;
        return 0;
}

int flag_text(const struct flag *flag, const char *value, struct err *err)
{
        (void)err;
        *(const char **)flag->to = value;
        return 0;
}

/* flags_read counts. */
int flag_once(const struct flag *flag, const char *value, struct err *err)
{
        return flag_text(flag, value, err);
}

/* The words stand between '|' in the row's argument, which is "=one|two|three". */
int flag_word(const struct flag *flag, const char *value, struct err *err)
{
        char expected[128] = "";
        size_t n, size = strlen(value);

        for (const char *word = flag->argument + 1; *word; word += n + (word[n] == '|')) {
                n = strcspn(word, "|");
                if (n == size && !memcmp(word, value, n))
                        return flag_text(flag, value, err);
                (void)snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%.*s%s", (int)n, word,
                               !word[n]                  ? "" :
                               strchr(word + n + 1, '|') ? ", " :
                                                           " or ");
        }
        return flag_refuse(flag, value, expected, err);
}

int flag_count(const struct flag *flag, const char *value, struct err *err)
{
        uint64_t count;

        if (number_parse(value, &count) < 0 || count < 1 || count > COUNT_MAX)
                return flag_refuse(flag, value, "not a number of 1 to 1000000", err);
        *(unsigned int *)flag->to = (unsigned int)count;
        return 0;
}

int flag_span(const struct flag *flag, const char *value, struct err *err)
{
        if (duration_parse(value, flag->to) < 0 || *(nsec *)flag->to == 0)
                return flag_refuse(flag, value, "not a span such as 5s, 250ms or 1h30m", err);
        return 0;
}

int flag_since(const struct flag *flag, const char *value, struct err *err)
{
        if (since_parse(value, clock_realtime(), flag->to) < 0)
                return flag_refuse(flag, value,
                                   "not a time such as 1h (ago), yesterday, 2026-11-21 or '2026-11-21 10:30'", err);
        return 0;
}

int flag_bytes(const struct flag *flag, const char *value, struct err *err)
{
        char wrong[BYTES_WRONG];

        if (bytes_parse(value, 0, flag->to) == 0)
                return 0;
        return flag_refuse(flag, value, bytes_wrong(value, "not a size such as 1G or 256M", wrong), err);
}

/* "-o, --output FILE"; the number of its characters. */
static int left_format(const struct flag *flag, char buffer[static LEFT])
{
        char letter[8] = "";

        if (flag->letter)
                (void)snprintf(letter, sizeof(letter), "-%c, ", flag->letter);
        return snprintf(buffer, LEFT, "%s--%s%s%s", letter, flag->name,
                        flag->argument && !strchr("=[", *flag->argument) ? " " : "",
                        flag->argument ? flag->argument : "");
}

static void print_row(int width, const char *left, const char *help, const char *environment)
{
        size_t n = strcspn(help, "\n");

        (void)printf("  %-*s   %.*s", width, left, (int)n, help);
        for (; help[n]; n += strcspn(help + n, "\n")) {
                n++;
                (void)printf("\n  %-*s   %.*s", width, "", (int)strcspn(help + n, "\n"), help + n);
        }
        (void)printf(environment ? " ($%s)\n" : "\n", environment);
}

static void print_help(const struct flag *flags, size_t n_flags, const char *usage)
{
        size_t before = strcspn(usage, "\f");
        const struct flag help = { .name = "help", .letter = 'h' };
        char left[LEFT];
        int width = left_format(&help, left), n;

        for (size_t i = 0; i < n_flags; i++)
                if (flags[i].help && (n = left_format(&flags[i], left)) > width)
                        width = n;
        (void)fwrite(usage, 1, before, stdout);
        for (size_t i = 0; i < n_flags; i++)
                if (flags[i].help) {
                        (void)left_format(&flags[i], left);
                        print_row(width, left, flags[i].help, flags[i].environment);
                }
        if (usage[before] || (n_flags && flags[0].help)) {
                (void)left_format(&help, left);
                print_row(width, left, "this text", NULL);
        }
        (void)fputs(usage + before + (usage[before] == '\f'), stdout);
}

static int read_environment(const struct flag *flags, size_t n_flags, struct err *err)
{
        for (size_t i = 0; i < n_flags; i++) {
                const char *value = flags[i].environment ? getenv(flags[i].environment) : NULL;
                int r = value && *value ? flags[i].read(&flags[i], value, err) : 0;

                if (r < 0)
                        return r;
        }
        return 0;
}

/* getopt's two tables. */
static void tables(const struct flag *flags, size_t n_flags, struct option *longs, char *shorts)
{
        *shorts++ = ':';
        *shorts++ = 'h';
        for (size_t i = 0; i < n_flags; i++) {
                int has_value = flags[i].read == flag_is                       ? no_argument :
                                flags[i].argument && *flags[i].argument == '[' ? optional_argument :
                                                                                 required_argument;

                longs[i] = (struct option){ flags[i].name, has_value, NULL, LONG_ONLY + (int)i };
                if (!flags[i].letter)
                        continue;
                *shorts++ = flags[i].letter;
                if (has_value)
                        *shorts++ = ':';
        }
        *shorts = '\0';
        longs[n_flags] = (struct option){ "help", no_argument, NULL, 'h' };
        longs[n_flags + 1] = (struct option){ 0 };
}

static const struct flag *flag_of(int option, const struct flag *flags, size_t n_flags)
{
        if (option >= LONG_ONLY)
                return &flags[option - LONG_ONLY];
        for (size_t i = 0; i < n_flags; i++)
                if (flags[i].letter == option)
                        return &flags[i];
        return NULL;
}

/* The option that was probably meant, if there is one. */
static int refuse_unknown(const char *verb, const char *word, const struct flag *flags, size_t n_flags, struct err *err)
{
        char name[LEFT];

        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
        for (size_t i = 0; i < n_flags && !strncmp(name, "--", 2); i++)
                if (flags[i].help && text_is_like(name + 2, flags[i].name))
                        return err_say(err, -EINVAL, "unknown option %s: did you mean --%s? ('sublet %s --help')", name,
                                       flags[i].name, verb);
        return err_say(err, -EINVAL, "unknown option %s ('sublet %s --help')", word, verb);
}

/* What getopt did not know: an option in full, or a letter, which may be one of several in a word. */
static const char *unknown_of(char **argv, char letter[static 3])
{
        if (!optopt || optopt >= LONG_ONLY)
                return argv[optind - 1];
        letter[0] = '-';
        letter[1] = (char)optopt;
        letter[2] = 0;
        return letter;
}

/* `given` has a bit per row. */
static int take(const struct flag *flags, const struct flag *flag, uint64_t *given, struct err *err)
{
        uint64_t bit = UINT64_C(1) << (flag - flags);

        if (flag->read == flag_once && *given & bit)
                return flag_refuse(flag, optarg, "the second of these, and there can be one", err);
        *given |= bit;
        return flag->read(flag, optarg, err);
}

int flags_read(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, bool is_command,
               struct err *err)
{
        struct option longs[FLAGS_MAX + 2];
        char shorts[2 * FLAGS_MAX + 4] = "+", letter[3];
        const struct flag *flag;
        uint64_t given = 0;
        int option, r = read_environment(flags, n_flags, err);

        assert(n_flags <= FLAGS_MAX);
        if (r < 0)
                return r;
        tables(flags, n_flags, longs, shorts + is_command);
        opterr = 0;
        optind = 0; /* glibc's: begin anew */
        optopt = 0;
        while ((option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
                if (option == 'h') {
                        print_help(flags, n_flags, usage);
                        return 0;
                }
                flag = option == ':' || option == '?' ? NULL : flag_of(option, flags, n_flags);
                if (option == ':')
                        return err_say(err, -EINVAL, "%s needs a value", argv[optind - 1]);
                if (!flag)
                        return refuse_unknown(argv[0], unknown_of(argv, letter), flags, n_flags, err);
                r = take(flags, flag, &given, err);
                if (r < 0)
                        return r;
        }
        return optind;
}

int flags_parse(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, int *ret_code)
{
        struct err err = { 0 };
        int operand = flags_read(argc, argv, flags, n_flags, usage, false, &err);

        if (operand > 0)
                return operand;
        *ret_code = operand == 0 ? VERB_DONE : VERB_USAGE;
        if (operand < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        return -1;
}

int flags_surplus(const char *verb, const char *operand)
{
        (void)fprintf(stderr, "sublet: '%s' is one too many ('sublet %s --help')\n", operand, verb);
        return VERB_USAGE;
}

int flags_failed(const struct err *err)
{
        (void)fprintf(stderr, "sublet: %s\n", err->text);
        return VERB_REFUSED;
}

int flags_parse_most(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, int most,
                     int *ret_code)
{
        int operand = flags_parse(argc, argv, flags, n_flags, usage, ret_code);

        if (operand < 0 || argc - operand <= most)
                return operand;
        *ret_code = flags_surplus(argv[0], argv[operand + most]);
        return -1;
}
