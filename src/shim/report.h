/* SPDX-License-Identifier: Apache-2.0 */
/* The account of a tenant: what it rented, held and was refused. The summary at the end of `sublet run`. */
#pragma once

#include "gate/gate.h"

#include <jansson.h>
#include <stdio.h>

struct report {
        const char *tenant;
        const struct lease *lease;
        struct gate_stats stats;
        int exit_code;
        nsec elapsed;
};

/* NULL: no memory. */
json_t *report_new(const struct report *report);

/* Prints what report_new made, here or in another process: as text, or as one line of JSON with sizes in bytes and
 * times in seconds. 0; -ENOMEM. */
int report_print(FILE *to, const json_t *report, bool is_json);
