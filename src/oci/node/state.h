/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to oci/node: what was done on a host, as lines: "busy" first, while something is under way; then "dir PATH",
 * "file PATH" and "made PATH", which is a shared file that was not there. Whoever can write it is root on the host.
 */
#pragma once

#include "oci/node/files.h"

#include <stdio.h>

int state_write(const struct install *install, const char *text, struct err *err); /* 0; -errno */

bool state_has(const char *state, const char *kind, const char *path);

/* The path of the next line of that kind; NULL: none. */
const char *state_next(const char **at, const char *kind, char ret[static INSTALL_PATH]);

/* A state in the making. */
struct noting {
        FILE *file; /* of open_memstream */
        char *text;
        size_t size;
};

/* Adds a line, once. */
void state_note(struct noting *noting, const char *kind, const char *path);
