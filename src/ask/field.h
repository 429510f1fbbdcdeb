/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer says, by name; what it does not say is 0 or "". An older daemon's answer lacks fields. */
#pragma once

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

uint64_t field_number(const json_t *object, const char *name); /* negative: 0; rounded down */
double field_real(const json_t *object, const char *name);     /* also of an integer */
double field_permille(const json_t *object, const char *name); /* 0 to 1000, whatever it says */
nsec field_moment(const json_t *object, const char *name);     /* of seconds since the epoch; 0 to the year 2200 */
const char *field_text(const json_t *object, const char *name);
bool field_is(const json_t *object, const char *name);

/* An array by name; NULL is an empty one to jansson. */
json_t *field_array(const json_t *object, const char *name);

/*
 * Text that others chose (a tenant's name, a command), made safe for a terminal: what does not print in this locale,
 * or takes no column, becomes '?'. At most `size` bytes with the NUL. Returns buffer.
 */
const char *field_clean(const char *text, char *buffer, size_t size);
