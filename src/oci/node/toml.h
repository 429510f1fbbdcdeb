/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of TOML 1.0 as it takes to know where in a text each key is: tables, dotted and quoted keys, strings of all
 * four kinds, arrays and inline tables. Values are not understood, and a text that passes may still be no TOML.
 *
 *      struct toml toml = toml_begin(text);
 *      while ((r = toml_next(&toml)) > 0)
 *              if (toml.value && toml_common(&toml, path) == ...) ...
 *
 * Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
        TOML_KEYS = 16,     /* of a path */
        TOML_ROOM = 512,    /* bytes of a path */
        TOML_DEPTH = 32,    /* of arrays and inline tables */
        TOML_STRING = 1024, /* of a string that toml_string reads */
};

struct toml {
        const char *text, *at;
        size_t n_table, n; /* keys of the table's path, and with those of the entry */
        const char *value; /* of the entry; NULL: it is a table's header */
        bool is_array;     /* a header of the form [[...]] */
        size_t starts[TOML_KEYS + 1];
        char keys[TOML_ROOM]; /* one behind the other, each with its NUL */
};

struct toml toml_begin(const char *text);

/* The next header or entry; the keys of inline tables are no entries. 1; 0: the end; -EINVAL, in line toml_line. */
int toml_next(struct toml *toml);
size_t toml_line(const struct toml *toml);

/* How many keys, from the first on, the entry's path and `path` (ended by NULL) have in common. */
size_t toml_common(const struct toml *toml, const char *const *path);

/* The next string of an array, from behind its '[' or what was read before. 1; 0: the array's end; -EINVAL: something
 * else than a string, or one of TOML_STRING bytes. */
int toml_string(const char **at, char ret[static TOML_STRING]);
