/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No tree is made of the chunk: it is looked at in place. A name with its quotes cannot stand within a string of JSON,
 * where quotes are escaped.
 */
#include "route/announced.h"

#include <string.h>

struct reader {
        const char *at, *end;
};

static void skip_space(struct reader *reader)
{
        while (reader->at < reader->end && memchr(" \t\r\n", *reader->at, 4))
                reader->at++;
}

static bool take(struct reader *reader, const char *text)
{
        size_t size = strlen(text);

        skip_space(reader);
        if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, text, size) != 0)
                return false;
        reader->at += size;
        return true;
}

/* A string without escapes; true: it is there. */
static bool take_string(struct reader *reader, const char **ret, size_t *ret_size)
{
        const char *from, *stop;

        if (!take(reader, "\""))
                return false;
        from = reader->at;
        stop = memchr(from, '"', (size_t)(reader->end - from));
        if (!stop || memchr(from, '\\', (size_t)(stop - from)))
                return false;
        *ret = from;
        *ret_size = (size_t)(stop - from);
        reader->at = stop + 1;
        return true;
}

static bool take_nothing(struct reader *reader)
{
        if (take(reader, "["))
                return take(reader, "]");
        if (take(reader, "{"))
                return take(reader, "}");
        return take(reader, "\"\"") || take(reader, "null");
}

/* The object of a delta, behind its name. */
static bool is_silent(struct reader *reader)
{
        const char *name, *value;
        size_t n_name, n_value;

        if (!take(reader, ":") || !take(reader, "{"))
                return false;
        if (take(reader, "}"))
                return true;
        do {
                if (!take_string(reader, &name, &n_name) || !take(reader, ":"))
                        return false;
                if (n_name == strlen("role") && !memcmp(name, "role", n_name)) {
                        if (!take_string(reader, &value, &n_value))
                                return false;
                } else if (!take_nothing(reader)) {
                        return false;
                }
        } while (take(reader, ","));
        return take(reader, "}");
}

static bool find_name(struct reader *reader, const char *name)
{
        const char *found = memmem(reader->at, (size_t)(reader->end - reader->at), name, strlen(name));

        if (found)
                reader->at = found + strlen(name);
        return found != NULL;
}

bool announced_only(const char *data, size_t size)
{
        struct reader deltas = { data, data + size }, ends = deltas;
        bool has_delta = false;

        while (find_name(&ends, "\"finish_reason\""))
                if (!take(&ends, ":") || !take(&ends, "null"))
                        return false;
        while (find_name(&deltas, "\"delta\"")) {
                if (!is_silent(&deltas))
                        return false;
                has_delta = true;
        }
        return has_delta;
}
