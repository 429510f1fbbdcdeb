/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a tenant's ledger. */
#pragma once

#include "gate/gate.h"

/* Call it after the tenant's last process has ended. Waits until the ledger is empty, at most 5 s (30 s on a machine so
 * busy that few looks fit into that), and raises BOOKS_NOT_EMPTY for each device where it is not. */
void settle(struct gate *gate, const struct lease *lease);

/* Afterwards: whether the driver still has memory of the tenant's, because somebody else has its open files. A ledger
 * that is not empty although nothing is left of the tenant is an error of ours, and keeps nothing. */
bool is_kept(struct gate *gate, const struct lease *lease);
