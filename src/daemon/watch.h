/* SPDX-License-Identifier: Apache-2.0 */
/* Xids and lost devices become events. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

int watch_start(struct daemon *daemon, struct watch **ret); /* 0; -ENOTSUP; -errno */
struct watch *watch_stop(struct watch *watch);              /* NULL is fine; waits up to a second */
