/* Self-attach: a program hands itself over at attach.sock. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

/* A word at attach.sock. *tenancy: 0 at first; which one the connection is about to attach. True: it is done with. */
bool attach_hear(struct daemon *daemon, int socket, uint64_t *tenancy, struct message *message);
void attach_undo(struct daemon *daemon, uint64_t tenancy); /* the connection left */
