/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a verb, declared once as rows: parser, environment and help come from them.
 *
 *      const struct flag flags[] = {
 *              { "dir", 0, flag_text, &dir, "DIR", "the daemon's directory", "SUBLET_DIR" },
 *              { "all", 'a', flag_is, &is_all, NULL, "also those that have ended", NULL },
 *      };
 *      int operands = flags_parse(argc, argv, flags, ARRAY_SIZE(flags), usage, &code);
 *
 * Options and operands may be mixed; `--` ends the options. Every verb has --help, which prints `usage` with the rows
 * that have a help in the place of its form feed ("\f"), or behind it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;

struct flag {
        const char *name; /* "since" is --since */
        char letter;      /* 'a' is -a; 0: none */

        /* Puts the value to `to`. 0; -EINVAL, -errno with err. One of those below, or the verb's own. */
        int (*read)(const struct flag *flag, const char *value, struct err *err);
        void *to;                    /* holds the default */
        const char *argument, *help; /* "DIR"; "=WORD|WORD" and "[=FILE]", which may be missing (value: NULL); help:
                                      * NULL is not printed, and a line end begins another line of it */
        const char *environment;     /* the variable that is read where the option is not given; NULL: none */
};

int flag_is(const struct flag *flag, const char *value, struct err *err);    /* bool: it was given, without a value */
int flag_text(const struct flag *flag, const char *value, struct err *err);  /* const char *: of argv */
int flag_once(const struct flag *flag, const char *value, struct err *err);  /* the same: two of it are bad use */
int flag_word(const struct flag *flag, const char *value, struct err *err);  /* the same: a word of `argument` */
int flag_span(const struct flag *flag, const char *value, struct err *err);  /* nsec: see duration_parse; not 0 */
int flag_count(const struct flag *flag, const char *value, struct err *err); /* unsigned int: 1 to 1000000 */
int flag_since(const struct flag *flag, const char *value, struct err *err); /* nsec of the epoch: since_parse */
int flag_bytes(const struct flag *flag, const char *value, struct err *err); /* bytes: see bytes_parse */

/* "--NAME VALUE: expected". Returns -EINVAL. */
int flag_refuse(const struct flag *flag, const char *value, const char *expected, struct err *err);

/* The index of the first operand in argv (they are moved behind the options); or -1, and the verb ends with *ret_code:
 * help was printed (0), or what is wrong (2). */
int flags_parse(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, int *ret_code);

/* The same of a verb that takes `most` operands, which may be none: one too many is bad use. */
int flags_parse_most(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, int most,
                     int *ret_code);

/* The same of a verb that prints what is wrong by itself. is_command: the first operand ends the options. The index; 0:
 * help was printed; -EINVAL, -errno. */
int flags_read(int argc, char **argv, const struct flag *flags, size_t n_flags, const char *usage, bool is_command,
               struct err *err);

enum {
        VERB_DONE,
        VERB_REFUSED, /* the daemon did not, or is not there */
        VERB_USAGE,   /* bad use */
};

/* How a verb ends that got an operand too many, or whose work failed: says it, and returns the exit code. */
int flags_surplus(const char *verb, const char *operand);
int flags_failed(const struct err *err);
