/* Processes that use a device and belong to no tenant. */
#pragma once

#include "daemon/state/daemon.h"

int unmanaged_start(struct daemon *daemon, struct unmanaged **ret); /* 0; -ENOTSUP; -errno */
struct unmanaged *unmanaged_stop(struct unmanaged *unmanaged);      /* NULL is fine; waits up to a second */
