/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that people write: YAML in, a JSON value out, and a line number in every complaint.
 *
 * The part of YAML that settings need: mappings, sequences, scalars, flow style, comments. Anchors,
 * aliases, tags and several documents are refused: a setting is not a program. A plain scalar is null, a
 * boolean (true, false), an integer, a real, or text; what is quoted is text. A key may stand once.
 *
 * Threads: any.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

struct err;

enum {
        CONF_SIZE_MAX = 4 << 20, /* of a file */
        CONF_DEPTH_MAX = 32,
};

/* Where things stand in the file, for complaints about what they mean. Good as long as the value is not changed. */
struct conf_lines {
        size_t n, room;
        struct conf_line {
                const void *of; /* the key of a member, or the item of a list: their address in the value */
                size_t line;
        } * at;
};

/*
 * *ret is the caller's (json_decref). lines: NULL, or zeroed; it is the caller's too, also after a failure.
 * 0; -EINVAL with file, line and reason in err; -errno.
 */
int conf_read(const char *path, json_t **ret, struct conf_lines *lines, struct err *err);

/* The same from memory; name is for messages. */
int conf_parse(const char *name, const char *text, size_t size, json_t **ret, struct conf_lines *lines,
               struct err *err);

/* 0: nobody knows. lines may be NULL. */
size_t conf_line_of(const struct conf_lines *lines, const void *of);
size_t conf_line_of_key(const struct conf_lines *lines, const json_t *in, const char *key);
void conf_lines_done(struct conf_lines *lines);
