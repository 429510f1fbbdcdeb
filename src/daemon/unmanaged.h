/* Processes that use a device and belong to no tenant. */
#pragma once

#include "daemon/state/daemon.h"

int strangers_start(struct daemon *daemon, struct strangers **ret); /* 0; -ENOTSUP; -errno */
struct strangers *strangers_stop(struct strangers *strangers);      /* NULL is fine; waits up to a second */
