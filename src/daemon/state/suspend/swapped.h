/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a suspended tenant has in host memory instead of on its devices: what its ledger had when the suspension began,
 * less what it has now. It stands in the control block, for the next daemon.
 *
 *      W1  only a tenant that is suspended, or on its way back, has any;
 *      W2  what was of a process that has ended meanwhile is nowhere.
 */
#pragma once

#include "daemon/state/tenants.h"

/* Before its memory begins to move. The rows of processes are read from its control block. */
void swapped_note(struct tenant *tenant);

/* W2; to be called now and then. */
void swapped_tick(struct tenant *tenant, nsec now);

/* 0 where the shim is too old to know it. */
bytes tenant_swapped(const struct tenant *tenant, unsigned int device);
bytes tenant_swapped_all(const struct tenant *tenant);
