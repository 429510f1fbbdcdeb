/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of what the daemon says of a tenant's device, for several verbs. */
#pragma once

#include "base/text.h"

#include <jansson.h>
#include <stddef.h>

/* "copy 12%, decoder 80%": the engines of a tenant's device that had work in the last second; "": none. A tenant that
 * waits for its turn on one has a * behind it. */
void engines_format(const json_t *engines, char *ret, size_t size);

/* "7.4 of 10 ms, 3 late": the p99 of a tenant's steps, its goal, and how many steps missed it; "": it has no goal. */
void goal_format(const json_t *tenant, const json_t *device, char *ret, size_t size);

bytes loans_sum(const json_t *loans); /* of `borrowed` or `lent` */
