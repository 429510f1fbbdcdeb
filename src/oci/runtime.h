/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container runtime is called with, as far as `sublet oci runtime` has to understand it before the real runtime
 * gets the same arguments.
 *
 * Pure. Source: the command lines of runc 1.1.5 (main.go, create.go, run.go) and crun 1.8.1 (crun.c, create.c, run.c).
 */
#pragma once

#include <stdbool.h>

struct err;

struct runtime_call {
        bool is_start;      /* create or run: the container in `bundle` is about to be made */
        const char *bundle; /* of argv; "." where none is named */
        const char *log;    /* the file that the runtime writes its errors to; NULL: to stderr only */
        bool is_log_json;
};

/*
 * Reads the arguments behind the runtime's name, up to NULL. What is in *ret is argv's; log and is_log_json are set
 * also on failure, so that the failure can be written there. 0; -EINVAL: an option before the verb that is not known
 * here, so that the verb is not certain; --config, which names another specification than the bundle's; or restore,
 * whose processes would come without the gate's filter.
 */
int runtime_call_read(const char *const *argv, struct runtime_call *ret, struct err *err);
