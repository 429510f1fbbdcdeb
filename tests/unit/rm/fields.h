/* SPDX-License-Identifier: Apache-2.0 */
/* A layout as a list of names and values, in the order of fields.def. */
#pragma once

#include "rm/layout.h"

struct rm_field {
        const char *name;
        uint32_t value;
};

enum {
        RM_N_FIELDS = 0
#define FIELD(name, unit, meaning) +1
#include "rm/fields.def"
#undef FIELD
};

static inline void layout_fields(const struct rm_layout *layout, struct rm_field ret[static RM_N_FIELDS])
{
        size_t n = 0;

#define FIELD(name_, unit, meaning) ret[n++] = (struct rm_field){ #name_, layout->name_ };
#include "rm/fields.def"
#undef FIELD
}
