/* The sockets at which tenants ask for leases and to which shims come back. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

int listeners_open(struct daemon *daemon, struct err *err);
void listeners_close(struct daemon *daemon);
void listeners_tick(struct daemon *daemon); /* connections who do not come to the point are shown out */
