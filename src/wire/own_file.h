/* SPDX-License-Identifier: Apache-2.0 */
/* The measured table of gate/policy/own_table.h, where this machine keeps it. */
#pragma once

#include "lease/lease.h"

#include <limits.h>

struct err;

#define OWN_FILE "/etc/sublet/own-memory"

enum {
        OWN_FILE_OK,
        OWN_FILE_E_NONE, /* none was named, and there is none at the usual place: what was known stays */
};

/* named: NULL: the usual place, of a simulated machine in its directory. */
void own_file_path(const char *named, char ret[static PATH_MAX]);

/* Puts what was measured into the devices of a lease whose devices are filled in (machine_probe). The file must be
 * root's (on a simulated machine the caller's is as good) and nobody else's to write, of this release, and of the
 * devices that are there. Otherwise nothing is known of any device, so that the largest known counts: -errno, with
 * the file and the reason, one line. */
int own_file_apply(const char *named, const char *release, struct lease *lease, struct err *err);
