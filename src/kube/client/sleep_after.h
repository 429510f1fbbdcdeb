/* SPDX-License-Identifier: Apache-2.0 */
/* The value of ANNOTATION_SET_SLEEP: "30s", from 1 s to 7 days, or "none". Pure. */
#pragma once

#include "base/clock.h"

#define SLEEP_AFTER_WORDS "a time from 1s to 7d, such as 30s, or none"

/* 0, and *ret is 0 for none; -EINVAL. */
int sleep_after_parse(const char *text, nsec *ret);
