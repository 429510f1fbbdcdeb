/* What an operator may see happen. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

#include <stdarg.h>

/* tenant and device may be missing (NULL, -1). Written to the log, the store, and those who follow. */
void event_emit(struct daemon *daemon, int event, const struct tenant *tenant, int device, const char *format, ...)
        __attribute__((format(printf, 5, 6)));

/* The number of an event by its name; -1: there is none. */
int event_find(const char *name);

/* The next event behind `id` that is still in memory; NULL: none. */
const struct event *event_after(const struct daemon *daemon, uint64_t id);

/* Must be told when a write to the store failed or worked: says so once. */
void daemon_store_result(struct daemon *daemon, int r);
