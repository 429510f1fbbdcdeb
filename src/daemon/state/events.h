/* SPDX-License-Identifier: Apache-2.0 */
/* Events for the operator, include/sublet/events.def. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

#include <stdarg.h>

/* Goes to the log, the store and followers. tenant NULL, device -1: none. */
void event_emit(struct daemon *daemon, int event, const struct tenant *tenant, int device, const char *format, ...)
        __attribute__((format(printf, 5, 6)));

/* The EVENT_x of a name; -1: unknown. */
int event_find(const char *name);

/* The next event after `id` that is still in memory; NULL: none. */
const struct event *event_after(const struct daemon *daemon, uint64_t id);

/* To be called with the result of each use of the store: the first failure is an event. */
void daemon_store_result(struct daemon *daemon, int r);
