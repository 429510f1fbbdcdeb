/*
 * The library hands its process over to the daemon's gate: its first act, before the program's own code.
 *
 * What runs in a process can be undone by that process; a filter cannot. So where the lease descriptor says that there is a daemon,
 * the constructor asks it (may I), installs the filter that the lease descriptor carries, and gives it the listener: from then on the
 * tenant is supervised as if it had been started so, and so is all that it starts, whether that loads the library or not.
 * The daemon comes first and the filter second: after the filter there is no way back.
 *
 *      A1  a process that inherited the gate finds that out by a request that only its gate answers (GATE_PROBE), and
 *          does not attach twice;
 *      A2  nobody decides inside a tenancy that has a gate: the daemon marks the usage segment before it says yes, and says no if
 *          a process has a slot there already (region.h);
 *      A3  where it cannot be done the quota is kept inside, or, if the lease descriptor requires it, no driver call is made.
 *
 * Threads: attach_begin before there are others of ours; where the program has some already (dlopen), the kernel puts the
 * filter on all of them, or it is not done.
 */
#pragma once

#include "preload/lease_descriptor.h"

#include <stdbool.h>

/* Blocks for at most 2 x ATTACH_MS, if the daemon does not answer. */
void attach_begin(const struct lease_descriptor *descriptor, enum lease_descriptor_source source);

bool attach_is_on(void); /* the gate decides; nothing is to be done here. Inherited by fork, as the filter is */
const char *attach_refusal(void); /* why no driver call may be made here, or NULL */

enum {
        ATTACH_MS = 2000,
};
