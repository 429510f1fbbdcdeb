/*
 * The options of a verb, declared once as rows: option, environment variable, default, help. The command line takes
 * precedence over the environment.
 */
#pragma once

#include <stddef.h>

enum option_kind {
        OPTION_TEXT,  /* const char * */
        OPTION_BYTES, /* bytes */
        OPTION_IS,    /* bool */
};

struct option_row {
        const char *name, *environment; /* environment: NULL: none */
        enum option_kind kind;
        void *to; /* holds the default */
        const char *argument, *meaning;
};

/* The index of the first operand; -1: the verb ends with *ret_code: 0 after --help, 2 after a message about bad use. */
int options_read(int argc, char **argv, const struct option_row *rows, size_t n_rows, const char *usage, int *ret_code);
