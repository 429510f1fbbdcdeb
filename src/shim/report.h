/* What a tenant rented, asked for, got and was refused: the summary at the end of `sublet run`. */
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

void report_text(FILE *to, const struct report *report);

/* All of it as JSON; NULL: no memory. What report_print prints may have come from another process. */
json_t *report_new(const struct report *report);
int report_print(FILE *to, const json_t *report, bool is_json); /* 0; -ENOMEM */

/* One line of JSON; sizes in bytes, times in seconds. 0; -ENOMEM. */
int report_json(FILE *to, const struct report *report);
