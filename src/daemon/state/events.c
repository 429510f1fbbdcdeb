/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "gate/gate.h"
#include "daemon/store/store.h"
#include "daemon/state/events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
        const char *name, *level, *line;
} kinds[] = {
#define EVENT(name, level, line, meaning) { #name, #level, line },
#include "sublet/events.def"
#undef EVENT
};

int event_find(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (!strcmp(kinds[i].name, name))
                        return (int)i;
        return -1;
}

static void log_event(const struct event *event)
{
        (void)fprintf(stderr, "sublet: %s%s%s: %s%s%s\n", event->name, event->tenant[0] ? ": " : "", event->tenant,
                      event->line, event->detail[0] ? ": " : "", event->detail);
}

void daemon_store_result(struct daemon *daemon, int r)
{
        bool has_failed = r < 0, had_failed = daemon->store_has_failed;

        daemon->store_has_failed = has_failed; /* first: the event below is stored, too */
        if (has_failed && !had_failed)
                event_emit(daemon, EVENT_STORE_FAILED, NULL, -1, "%s",
                           daemon->store ? store_error(daemon->store) : "no store");
}

/* The detail may contain a tenant's text: it must not forge lines of the log, and JSON needs UTF-8. */
static void clean_text(char *text)
{
        json_t *string = json_string(text);

        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == 127 || (!string && (unsigned char)*text > 127))
                        *text = '?';
        json_decref(string);
}

/* Any user can cause events of level INFO without end, and must not fill the disk. */
static bool may_store(struct daemon *daemon, const struct event *event)
{
        unsigned int n_dropped = daemon->n_dropped;

        if (event->time - daemon->stored_since > NSEC_PER_SEC || event->time < daemon->stored_since) {
                daemon->stored_since = event->time;
                daemon->n_stored = daemon->n_dropped = 0;
                if (n_dropped)
                        event_emit(daemon, EVENT_EVENTS_DROPPED, NULL, -1, "%u", n_dropped);
        }
        if (strcmp(event->level, "INFO") != 0 || daemon->n_stored++ < EVENTS_A_SECOND)
                return true;
        daemon->n_dropped++;
        return false;
}

static void event_keep(struct daemon *daemon, struct event *event)
{
        bool is_stored = may_store(daemon, event) && daemon->store;
        struct store_event row = { .id = daemon->event_id + 1,
                                   .time = event->time,
                                   .level = event->level,
                                   .name = event->name,
                                   .tenant = event->tenant,
                                   .line = event->line,
                                   .detail = event->detail,
                                   .owner = event->owner,
                                   .device = event->device };
        int r = is_stored ? store_event_put(daemon->store, &row) : 0;

        event->id = daemon->event_id = row.id;
        daemon->events[event->id % EVENTS_KEPT] = *event;
        if (r < 0)
                daemon_store_result(daemon, r);
}

void event_emit(struct daemon *daemon, int kind, const struct tenant *tenant, int device, const char *format, ...)
{
        struct event event = { .time = clock_realtime(),
                               .level = kinds[kind].level,
                               .name = kinds[kind].name,
                               .line = kinds[kind].line,
                               .owner = tenant ? (int64_t)tenant->lease.owner : -1,
                               .device = device };
        va_list args;

        if (tenant)
                (void)snprintf(event.tenant, sizeof(event.tenant), "%s", tenant->lease.tenant);
        va_start(args, format);
        (void)vsnprintf(event.detail, sizeof(event.detail), format, args);
        va_end(args);
        clean_text(event.detail);
        if (!daemon->is_silent)
                log_event(&event);
        event_keep(daemon, &event);
        daemon_changed(daemon);
}

/* Ids may have gaps, so the ring is searched. */
const struct event *event_after(const struct daemon *daemon, uint64_t id)
{
        uint64_t oldest = daemon->event_id >= EVENTS_KEPT ? daemon->event_id - EVENTS_KEPT + 1 : 1;

        for (uint64_t next = id + 1 > oldest ? id + 1 : oldest; next <= daemon->event_id; next++)
                if (daemon->events[next % EVENTS_KEPT].id == next)
                        return &daemon->events[next % EVENTS_KEPT];
        return NULL;
}
