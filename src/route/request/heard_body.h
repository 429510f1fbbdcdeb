/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent heard of other routers: the body of PUT /v1/routers (docs/router-api.md). Pure. */
#pragma once

#include "route/pool.h"

#include <jansson.h>
#include <stdbool.h>

enum {
        HEARD_BLOCKS = 128, /* of one entry of "blocks" */
};

/* One entry of "replicas". NULL; or why it is refused (static). *ret_name is the body's. */
const char *heard_body_read(const json_t *entry, const char **ret_name, struct heard *ret, bool *ret_is_tripped);

/* One entry of "blocks": a replica's name, and *ret_n blocks. NULL; or why it is refused. */
const char *heard_body_blocks(const json_t *entry, const char **ret_name, uint64_t ret[static HEARD_BLOCKS],
                              size_t *ret_n);

/* What others used of a key since this was said last; value: enum heard_key. */
struct heard_of_key {
        uint32_t interval_us, per_minute;
        uint32_t value[HEARD_KEY_N];
};

/* One entry of "keys": NULL, and its name is text; or why it is refused. */
const char *heard_body_key(const json_t *entry, struct heard_of_key *ret);
