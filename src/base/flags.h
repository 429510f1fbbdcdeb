/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a verb, declared once as rows: parser, environment and help come from them.
 *
 *      const struct flag flags[] = {
 *              { "dir", 0, FLAG_TEXT, &dir, "DIR", "the daemon's directory", "SUBLET_DIR" },
 *              { "all", 'a', FLAG_IS, &is_all, NULL, "also those that have ended", NULL },
 *      };
 *      int operands = flags_parse(argc, argv, flags, ARRAY_SIZE(flags), usage, &code);
 *
 * Options and operands may be mixed; `--` ends the options. Every verb has --help, which prints `usage` with the rows
 * that have a help in the place of its form feed ("\f"), or behind it.
 */
#pragma once

#include <stddef.h>

struct err;

enum flag_kind {
        FLAG_IS,    /* bool: it was given */
        FLAG_TEXT,  /* const char *: of argv */
        FLAG_SPAN,  /* nsec: see duration_parse */
        FLAG_COUNT, /* unsigned int: 1 to 1000000 */
        FLAG_SINCE, /* nsec since the epoch: see since_parse */
        FLAG_BYTES, /* bytes: see bytes_parse */
};

struct flag {
        const char *name; /* "since" is --since */
        char letter;      /* 'a' is -a; 0: none */
        enum flag_kind kind;
        void *to;                    /* holds the default */
        const char *argument, *help; /* "DIR"; help: NULL is not printed, and a line end begins another line of it */
        const char *environment;     /* the variable that is read where the option is not given; NULL: none */
};

/* The index of the first operand in argv (they are moved behind the options); or -1, and the verb ends with *ret_code:
 * help was printed (0), or what is wrong (2). */
int flags_parse(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, int *ret_code);

/* The same of a verb that takes `most` operands, which may be none: one too many is bad use. */
int flags_parse_most(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, int most,
                     int *ret_code);

enum {
        VERB_DONE,
        VERB_REFUSED, /* the daemon did not, or is not there */
        VERB_USAGE,   /* bad use */
};

/* How a verb ends that got an operand too many, or whose work failed: says it, and returns the exit code. */
int flags_surplus(const char *verb, const char *operand);
int flags_failed(const struct err *err);
