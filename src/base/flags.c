/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flags.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "base/when.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        FLAGS_MAX = 24,
        LEFT = 64,       /* of a row of the help */
        LONG_ONLY = 256, /* getopt's value of the first row */
        COUNT_MAX = 1000000,
};

static int value_refuse(const char *option, const char *value, const char *expected)
{
        (void)fprintf(stderr, "sublet: --%s %s: %s\n", option, value, expected);
        return -EINVAL;
}

static int set_count(const struct flag *flag, const char *value)
{
        uint64_t count;

        if (number_parse(value, &count) < 0 || count < 1 || count > COUNT_MAX)
                return value_refuse(flag->name, value, "not a number of 1 to 1000000");
        *(unsigned int *)flag->to = (unsigned int)count;
        return 0;
}

static int flag_set(const struct flag *flag, const char *value)
{
        switch (flag->kind) {
        case FLAG_IS:
                *(bool *)flag->to = true;
                return 0;
        case FLAG_TEXT:
                *(const char **)flag->to = value;
                return 0;
        case FLAG_COUNT:
                return set_count(flag, value);
        case FLAG_SPAN:
                if (duration_parse(value, flag->to) < 0 || *(nsec *)flag->to == 0)
                        return value_refuse(flag->name, value, "not a span such as 5s, 250ms or 1h30m");
                return 0;
        case FLAG_SINCE:
                if (since_parse(value, clock_realtime(), flag->to) < 0)
                        return value_refuse(flag->name, value,
                                            "not a time such as 1h (ago), 2026-11-21 or '2026-11-21 10:30'");
                return 0;
        case FLAG_BYTES:
                return bytes_parse(value, 0, flag->to) < 0 ?
                               value_refuse(flag->name, value, "not a size such as 1G or 256M") :
                               0;
        }
        return -EINVAL;
}

/* "-o, --output FILE"; the number of its characters. */
static int left_format(const struct flag *flag, char buffer[static LEFT])
{
        char letter[8] = "";

        if (flag->letter)
                (void)snprintf(letter, sizeof(letter), "-%c, ", flag->letter);
        return snprintf(buffer, LEFT, "%s--%s%s%s", letter, flag->name, flag->argument ? " " : "",
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

static int read_environment(const struct flag *flags, size_t n_flags)
{
        for (size_t i = 0; i < n_flags; i++) {
                const char *value = flags[i].environment ? getenv(flags[i].environment) : NULL;

                if (value && *value && flag_set(&flags[i], value) < 0)
                        return -EINVAL;
        }
        return 0;
}

/* getopt's two tables. */
static void tables(const struct flag *flags, size_t n_flags, struct option *longs, char *shorts)
{
        *shorts++ = ':';
        *shorts++ = 'h';
        for (size_t i = 0; i < n_flags; i++) {
                int has_value = flags[i].kind == FLAG_IS ? no_argument : required_argument;

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

int flags_parse(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, int *ret_code)
{
        struct option longs[FLAGS_MAX + 2];
        char shorts[2 * FLAGS_MAX + 3];
        const struct flag *flag;
        int option;

        *ret_code = VERB_USAGE;
        if (read_environment(flags, n_flags) < 0)
                return -1;
        tables(flags, n_flags, longs, shorts);
        opterr = 0;
        optind = 0; /* glibc's: begin anew */
        while ((option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
                if (option == 'h') {
                        print_help(flags, n_flags, usage);
                        *ret_code = VERB_DONE;
                        return -1;
                }
                flag = option == ':' || option == '?' ? NULL : flag_of(option, flags, n_flags);
                if (option == ':')
                        (void)fprintf(stderr, "sublet: %s needs a value\n", argv[optind - 1]);
                else if (!flag)
                        (void)fprintf(stderr, "sublet: unknown option %s ('sublet %s --help')\n", argv[optind - 1],
                                      argv[0]);
                if (!flag || flag_set(flag, optarg) < 0)
                        return -1;
        }
        return optind;
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
