/* SPDX-License-Identifier: Apache-2.0 */
/* Self-attach: a program hands itself over at attach.sock. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

/* Answers a message at attach.sock. *tenancy: 0 at first; then the tenancy that the connection is attaching. True: drop
 * the connection. */
bool attach_handle(struct daemon *daemon, int socket, uint64_t *tenancy, struct message *message);
void attach_undo(struct daemon *daemon, uint64_t tenancy); /* the connection was dropped; 0: nothing to do */
