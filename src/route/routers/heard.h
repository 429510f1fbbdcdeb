/* SPDX-License-Identifier: Apache-2.0 */
/* What routers tell each other of a replica (heard.def): counts, work as in pick.h, nsec. Plain values. */
#pragma once

#include <stdint.h>

enum heard_what {
#define HEARD(name, text, meaning) HEARD_##name,
#include "route/routers/heard.def"
#undef HEARD
        HEARD_N,
};

#define HEARD_MAX (1ull << 52) /* of one value; the sum of all routers is still a whole number of JSON */

struct heard {
        uint64_t value[HEARD_N];
};

extern const char *const HEARD_NAMES[HEARD_N];
