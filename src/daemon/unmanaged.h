/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on a device that belong to no tenant become events. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

int unmanaged_start(struct daemon *daemon, struct unmanaged **ret); /* 0; -ENOTSUP; -errno */
/* The meter has named a context on the device that is no scheduled tenant's: judges its process at once, instead of
 * within a second. process 0: the driver does not say whose it is. */
void unmanaged_seen(struct daemon *daemon, unsigned int device, pid_t process, uint32_t context);

struct unmanaged *unmanaged_stop(struct unmanaged *unmanaged); /* NULL is fine; waits up to a second */
