/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the tenants that daemon/state/ghost.h finds. Thread: the loop, which a look at all processes keeps for some
 * milliseconds: one tenant a second is looked at. */
#pragma once

#include "daemon/state/daemon.h"

/* Whether a tenant of a pod has had no allocation for so long that it is to be looked at. Asked once a second or more
 * often, or its time does not count. */
bool ghosts_is_due(const struct daemon *daemon, struct tenant *tenant);

/* Ten times a second. */
void ghosts_tick(struct daemon *daemon);
