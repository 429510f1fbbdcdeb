/*
 * The settings of a verb of this room, declared once as rows: option, environment variable, default, help. An option on
 * the command line goes before the environment.
 */
#pragma once

#include <stddef.h>

enum option_kind {
        OPTION_TEXT,  /* const char * */
        OPTION_BYTES, /* bytes */
        OPTION_IS,    /* bool */
};

struct option_row {
        const char *name, *environment; /* environment: NULL is none */
        enum option_kind kind;
        void *to; /* holds the default */
        const char *argument, *meaning;
};

/* The index of the first operand; or -1, and the verb ends with *ret_code: help was printed (0), or what is wrong (2). */
int options_read(int argc, char **argv, const struct option_row *rows, size_t n_rows, const char *usage, int *ret_code);
