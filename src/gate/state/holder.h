/* SPDX-License-Identifier: Apache-2.0 */
/* Which process has one of the open files that the gate only watches (open_files.h), as far as /proc tells. */
#pragma once

#include "gate/state/open_files.h"

#include <sys/types.h>

/* Asks the kernel about each descriptor of each process that may be of the driver, and for at most half a second.
 * Threads: any. 0: none, or it cannot be told: it is in a socket, or on its way, or nobody may look. */
pid_t open_files_holder(struct open_files *files);
