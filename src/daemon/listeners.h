/* The sockets at which tenants ask for leases and to which shims come back. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

int doors_open(struct daemon *daemon, struct err *err);
void doors_close(struct daemon *daemon);
void doors_tick(struct daemon *daemon); /* visitors who do not come to the point are shown out */
