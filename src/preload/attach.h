/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self-attach: the constructor hands the process over to the daemon's gate before the program's own code runs.
 *
 * Whatever runs inside a process can be undone by that process; a seccomp filter cannot. So where the lease descriptor
 * names a daemon, the library asks it for permission, installs the filter that the descriptor carries and sends the
 * daemon the notify listener. From then on the tenant and everything that it starts is supervised as if `sublet run`
 * had started it, whether a child loads the library or not. The daemon is asked first, because after the filter there
 * is no way back.
 *
 *      A1  a process that inherited the gate learns that from a request that only its gate answers (GATE_PROBE), and
 *          does not attach twice;
 *      A2  nothing is decided inside a tenancy that has a gate: the daemon marks the usage segment before it says yes,
 *          and says no if a process has a slot there already (usage_segment.h);
 *      A3  where attaching fails, the quota is kept inside; or, if the lease descriptor requires the gate, no driver
 *          call is made.
 *
 * Threads: the library has none of its own at that time. If the program has several (dlopen), the kernel installs the
 * filter on all of them, or attaching fails.
 */
#pragma once

#include "preload/lease_descriptor.h"

#include <stdbool.h>

/* Blocks for at most 2 x ATTACH_MS if the daemon does not answer, ATTACH_TRIES times as long if it then hangs up. */
void attach_begin(const struct lease_descriptor *descriptor, enum lease_descriptor_source source);

/* True: the gate decides and the library does nothing. Inherited by fork, as the filter is. */
bool attach_is_on(void);
const char *attach_refusal(void); /* why no driver call may be made, or NULL; static */

enum {
        ATTACH_MS = 2000,
        ATTACH_TRIES = 4, /* of a connection that ends before the answer */
};
