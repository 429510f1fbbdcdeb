/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says of a replica: the body of PUT /v1/replicas/NAME (docs/router-api.md), but for the address, which
 * nginx reads. Pure. */
#pragma once

#include "route/pool.h"

#include <jansson.h>
#include <stdbool.h>

/* Puts what is there into *config; what is not there stays. NULL; or why it is refused (static), with *config half
 * changed. */
const char *replica_body_read(const json_t *body, struct pool_config *config);

/* A whole number of that name, if it is there. NULL, or why not. */
const char *replica_body_number(const json_t *body, const char *name, uint32_t *ret);

bool replica_name_is_fine(const char *name);
