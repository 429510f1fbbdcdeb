/* SPDX-License-Identifier: Apache-2.0 */
#include "route/routers/heard.h"

const char *const HEARD_NAMES[HEARD_N] = {
#define HEARD(name, text, meaning) text,
#include "route/routers/heard.def"
#undef HEARD
};

const char *const HEARD_KEY_NAMES[HEARD_KEY_N] = { "at_once", "spent", "tokens", "tokens_returned" };
