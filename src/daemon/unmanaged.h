/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on a device that belong to no tenant become events. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

int unmanaged_start(struct daemon *daemon, struct unmanaged **ret); /* 0; -ENOTSUP; -errno */
struct unmanaged *unmanaged_stop(struct unmanaged *unmanaged);      /* NULL is fine; waits up to a second */
