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

/* Of a key with a limit; all but the first only grow. */
enum heard_key {
        HEARD_KEY_AT_ONCE,  /* requests now */
        HEARD_KEY_SPENT,    /* requests that passed, ever */
        HEARD_KEY_TOKENS,   /* taken of its budget, ever ... */
        HEARD_KEY_RETURNED, /* ... and given back */
        HEARD_KEY_N,
};

extern const char *const HEARD_KEY_NAMES[HEARD_KEY_N];

#define HEARD_MAX (1ull << 52) /* of one value; the sum of all routers is still a whole number of JSON */

struct heard {
        uint64_t value[HEARD_N];
};

extern const char *const HEARD_NAMES[HEARD_N];
