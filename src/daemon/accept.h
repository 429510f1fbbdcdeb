/* SPDX-License-Identifier: Apache-2.0 */
/* Who may connect to tenant.sock, attach.sock and keeper.sock. Thread: the loop. */
#pragma once

#include "daemon/connection.h"

/* Whether one more connection of that kind may come from this user; one that has nothing may be dropped for it, so that
 * no user's keep others out (accept.c). */
bool connections_accept(struct daemon *daemon, enum connection_kind kind, uid_t uid);
