/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what a running router knows: its replicas, and why a request was sent to its replica. */
#pragma once

#include <stdbool.h>

struct err;

/* From the module's API. 0; -errno. */
int route_state(const char *dir, bool is_json, struct err *err);

/* From the request log; log: NULL is DIR/requests.log and the rotated ones. JSON: the log's own entry. 0; -ENOENT: not
 * found. */
int route_explain(const char *dir, const char *log, const char *id, bool is_json, struct err *err);
