/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of `sublet doctor --measure`: what the driver takes of this machine's models unasked (own.def), as measured.
 *
 *      # a comment
 *      own-memory 1                 the first line that is none: the version of the format
 *      release 580.159.04
 *      model NVIDIA H200             begins a model; what follows is its own
 *      architecture 0x180
 *      group 4416                   KiB for one; a kind that has no line is not known
 *
 * Pure. A model is all devices of that name.
 */
#pragma once

#include "gate/policy/own.h"

#include <stdio.h>

struct err;

enum {
        OWN_MODELS_MAX = 16,
        OWN_TABLE_MAX = 64 * 1024, /* bytes of a file */
        OWN_KIB_MAX = 1024 * 1024, /* for one object: more is a mistake */
};

struct own_model {
        char name[64];
        uint32_t architecture;
        struct lease_own own;
};

struct own_table {
        char release[32];
        size_t n;
        struct own_model models[OWN_MODELS_MAX];
};

/* Anything that is not exactly such a file is refused. 0; -EINVAL with the line. */
int own_table_parse(const char *text, size_t size, struct own_table *ret, struct err *err);

void own_table_print(FILE *to, const struct own_table *table);

/* The model of that name and architecture; NULL: the table has none. */
const struct own_model *own_table_model(const struct own_table *table, const char *name, uint32_t architecture);
