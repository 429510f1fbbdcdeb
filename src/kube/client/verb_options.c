#include "kube/client/verb_options.h"

#include "base/text.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        ROWS_MAX = 24,
        FIRST = 256, /* getopt's value for the first row */
};

static int option_set(const struct option_row *row, const char *value)
{
        switch (row->kind) {
        case OPTION_IS:
                *(bool *)row->to = true;
                return 0;
        case OPTION_TEXT:
                *(const char **)row->to = value;
                return 0;
        case OPTION_BYTES:
                if (bytes_parse(value, 0, row->to) == 0)
                        return 0;
                (void)fprintf(stderr, "sublet: --%s %s: not a size such as 1G or 256M\n", row->name, value);
                return -1;
        }
        return -1;
}

static void print_help(const struct option_row *rows, size_t n_rows, const char *usage)
{
        (void)fputs(usage, stdout);
        for (size_t i = 0; i < n_rows; i++) {
                char left[64];

                (void)snprintf(left, sizeof(left), "--%s %s", rows[i].name, rows[i].argument ? rows[i].argument : "");
                (void)printf("  %-24s %s%s%s%s\n", left, rows[i].meaning, rows[i].environment ? " ($" : "",
                             rows[i].environment ? rows[i].environment : "", rows[i].environment ? ")" : "");
        }
}

static int read_environment(const struct option_row *rows, size_t n_rows)
{
        for (size_t i = 0; i < n_rows; i++) {
                const char *value = rows[i].environment ? getenv(rows[i].environment) : NULL;

                if (value && *value && option_set(&rows[i], value) < 0)
                        return -1;
        }
        return 0;
}

int options_read(int argc, char **argv, const struct option_row *rows, size_t n_rows, const char *usage, int *ret_code)
{
        struct option longs[ROWS_MAX + 2] = { 0 };
        int option;

        *ret_code = 2;
        for (size_t i = 0; i < n_rows && i < ROWS_MAX; i++)
                longs[i] = (struct option){ rows[i].name, rows[i].kind == OPTION_IS ? no_argument : required_argument,
                                            NULL, FIRST + (int)i };
        longs[n_rows] = (struct option){ "help", no_argument, NULL, 'h' };
        if (read_environment(rows, n_rows) < 0)
                return -1;
        opterr = 0;
        optind = 0; /* resets glibc's getopt */
        while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
                if (option == 'h') {
                        print_help(rows, n_rows, usage);
                        *ret_code = 0;
                        return -1;
                }
                if (option == ':')
                        (void)fprintf(stderr, "sublet: %s needs a value\n", argv[optind - 1]);
                else if (option < FIRST)
                        (void)fprintf(stderr, "sublet: unknown option %s ('sublet %s --help')\n", argv[optind - 1],
                                      argv[0]);
                if (option < FIRST || option_set(&rows[option - FIRST], optarg) < 0)
                        return -1;
        }
        return optind;
}
