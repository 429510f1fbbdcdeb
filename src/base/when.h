/* SPDX-License-Identifier: Apache-2.0 */
/* Spans and points in time, and shares, as people write them. Parsers take the whole string or refuse it. */
#pragma once

#include "base/clock.h"

/* Longest text of the formatters, with its NUL. */
enum {
        WHEN_TEXT = 40,
};

/*
 * "5s", "250ms", "1.5h", "1h30m", "2d"; a number alone is seconds. Units: ns us ms s m h d, each once, the larger
 * first. 0 is a span. Returns 0; -EINVAL (not a span); -ERANGE (more than 100 years).
 */
int duration_parse(const char *text, nsec *ret);

/* "850 ms", "12 s", "3 min", "5 h", "2 d": the largest unit of which there are two, or exactly one. */
const char *duration_format(nsec span, char buffer[static WHEN_TEXT]);

/*
 * A point in the past, in nanoseconds since the epoch: a span before `now` ("1h", "2d"), a day ("2026-11-21", "today",
 * "yesterday", from its midnight), a minute or second of it ("2026-11-21 10:30", "2026-11-21T10:30:05", a "Z" behind
 * it for UTC, else local time), or seconds since the epoch (more than 8 digits, also with a fraction, which the API's
 * `to` and `time` are). 0; -EINVAL; -ERANGE.
 */
int since_parse(const char *text, nsec now, nsec *ret);

/* "2026-11-21 10:30:05", local time. */
const char *moment_format(nsec moment, char buffer[static WHEN_TEXT]);

/* "30", "30%", "12.5": a percentage as permille, 1 to 1000. 0; -EINVAL (also for more than one decimal); -ERANGE. */
int permille_parse(const char *text, unsigned int *ret);

/* "30%", "12.5%". */
const char *permille_format(unsigned int permille, char buffer[static WHEN_TEXT]);
