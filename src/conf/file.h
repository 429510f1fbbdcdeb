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

/* *ret is the caller's (json_decref). 0; -EINVAL with file, line and reason in err; -errno. */
int conf_read(const char *path, json_t **ret, struct err *err);

/* The same from memory; name is for messages. */
int conf_parse(const char *name, const char *text, size_t size, json_t **ret, struct err *err);
