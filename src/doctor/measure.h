/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet doctor --measure`: what the driver takes of this machine's devices unasked, as a table that run and daemon
 * read (gate/policy/own_table.h). */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct err;

struct measure_options {
        const char *output; /* FILE; NULL: the usual place; "-": none is written */
        bool is_json;
};

/* Measures one device of each name, prints what was found, and writes the file. While it works no daemon can begin to
 * serve the devices. 0; -EBUSY: a device is in use; -errno. */
int measure_devices(FILE *to, const struct measure_options *options, struct err *err);
