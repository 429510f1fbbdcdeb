/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets at which tenants ask for leases, shims and programs come, and runtimes send containers. Thread: the loop.
 *
 * This room is the process around the daemon's state: it may see every room below it. Nothing sees it but the program.
 */
#pragma once

#include "daemon/state/daemon.h"

/* Opens the sockets in settings.dir, in place of an earlier daemon's. 0; -errno. */
int listeners_open(struct daemon *daemon, struct err *err);
void listeners_close(struct daemon *daemon); /* removes them, and drops all connections */
void listeners_tick(struct daemon *daemon);  /* ten times a second: time limits, and who waits for an answer */
