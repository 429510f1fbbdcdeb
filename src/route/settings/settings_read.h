/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of single values of the file: each checks a value and stores it, or complains. Inside settings.
 *
 * `to` is the field that the value goes to, `size` its bytes (for text). A preset is read like a value: as text.
 * Each returns 0, or -EINVAL with the complaint in cursor->err.
 */
#pragma once

#include "route/settings/settings.h"

/* The position in the file, for complaints. */
struct settings_cursor {
        const char *file;
        const struct conf_lines *lines; /* NULL: not known */
        size_t line;                    /* 0: not known */
        char where[SETTINGS_NAME + 24]; /* "replica 'chat-1': " */
        const char *key;                /* NULL: none */
        struct err *err;
};

typedef int settings_reader(const struct settings_cursor *cursor, const json_t *value, void *to, size_t size);

settings_reader read_text, read_word, read_name, read_key, read_list, read_listen, read_models, read_count, read_rate,
        read_span, read_size, read_part, read_flag, read_wake, read_request_rate;

int settings_refuse(const struct settings_cursor *cursor, const char *wanted); /* -EINVAL */

bool settings_is_port(const char *text);
