/* Questions about a router that runs: its replicas now, and why a request went where it went. They print. */
#pragma once

#include <stdbool.h>

struct err;

/* From the module's API. 0; -errno. */
int route_state(const char *dir, bool is_json, struct err *err);

/* From the request log; log: NULL is DIR/requests.log and those put aside. 0; -ENOENT: it is not in there. */
int route_explain(const char *dir, const char *log, const char *id, struct err *err);
