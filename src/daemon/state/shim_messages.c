/* SPDX-License-Identifier: Apache-2.0 */
/* The messages between the daemon and a tenant's shim. A shim whose socket is full does not read: nothing waits for
 * it. */
#include "daemon/state/daemon.h"
#include "daemon/state/shims.h"

#include "base/cleanup.h"
#include "gate/gate.h"
#include "daemon/state/events.h"
#include "daemon/state/usage.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int shims_set(struct tenant *tenant)
{
        json_t *body = message_new("set"), *mem = json_object();
        int r;

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++) {
                char index[16];

                (void)snprintf(index, sizeof(index), "%u", i);
                if (tenant->lease.devices[i].is_granted)
                        (void)json_object_set_new(mem, index, json_integer((json_int_t)tenant->lease.devices[i].quota));
        }
        (void)json_object_set_new(body, "serial", json_integer((json_int_t)tenant->set_asked + 1));
        (void)json_object_set_new(body, "mem", mem);
        (void)json_object_set_new(body, "share", json_integer(tenant->lease.share));
        (void)json_object_set_new(body, "cap", json_integer(tenant->lease.cap));
        (void)json_object_set_new(body, "class", json_string(turns_class_name(tenant->lease.class)));
        (void)json_object_set_new(body, "latency_us", json_integer(tenant->lease.goal / NSEC_PER_USEC));
        (void)json_object_set_new(body, "sleep_after_us", json_integer(tenant->lease.sleep_after / NSEC_PER_USEC));
        (void)json_object_set_new(body, "host_swap_bytes", json_integer((json_int_t)tenant->lease.host_swap));
        r = message_send(tenant->source.fd, body, NULL, 0);
        if (r != MESSAGE_OK)
                return r < 0 ? r : -EAGAIN;
        tenant->set_asked++;
        return 0;
}

int shims_join(struct tenant *tenant, int listener)
{
        int r = tenant->source.fd < 0 ? MESSAGE_E_CLOSED :
                                        message_send(tenant->source.fd, message_new("join"), &listener, 1);

        return r == MESSAGE_E_NONE || r == MESSAGE_E_CLOSED ? SHIMS_E_LATER : r;
}

int shims_end(struct tenant *tenant)
{
        int r = tenant->source.fd < 0 ? -ENOTCONN : message_send(tenant->source.fd, message_new("end"), NULL, 0);

        return r <= 0 ? r : -EAGAIN;
}

void shims_send_event(struct tenant *tenant, const struct event *event)
{
        json_t *body = message_new("event");

        (void)json_object_set_new(body, "name", json_string(event->name));
        (void)json_object_set_new(body, "level", json_string(event->level));
        (void)json_object_set_new(body, "text", json_string(event->detail));
        if (tenant->source.fd < 0)
                json_decref(body);
        else
                (void)message_send(tenant->source.fd, body, NULL, 0);
}

/* Its memory is checked: the shim is ours, but a newer or older one may differ. */
static int take_control_block(struct tenant *tenant, struct message *hello)
{
        _cleanup_(closep) int fd = message_take_fd(hello, 0);
        struct control_block *control;
        int r = fd < 0 ? -EPROTO : control_block_map(fd, &control);

        if (r < 0)
                return r;
        if (strcmp(control->tenant, tenant->lease.tenant) || (tenant->shim && control->shim != tenant->shim)) {
                control_block_unmap(control);
                return -EPROTO;
        }
        control_block_unmap(tenant->control);
        tenant->control = control;
        tenant->shim = control->shim;
        return 0;
}

/* With its control block, a tenant is scheduled, counted and listed. */
static int on_hello(struct daemon *daemon, struct tenant *tenant, struct message *hello)
{
        bool is_back = tenant->state == TENANT_AWAITED;
        int r;

        daemon_unschedule(daemon, tenant);
        r = take_control_block(tenant, hello);
        if (r < 0)
                return r;
        tenant->control->heartbeat = clock_now();
        tenant->state = TENANT_RUNNING;
        tenant->room.is_told = false;
        usage_start(daemon, tenant);
        if (!is_back)
                usage_restart(daemon, tenant);
        if (daemon->store)
                daemon_store_result(daemon, store_tenant_set(daemon->store, &tenant->lease, tenant->shim));
        tenant->share = 0; /* so that it is written on the new control block */
        daemon_divide(daemon);
        daemon_schedule(daemon, tenant);
        suspend_take(daemon, tenant);
        if (!is_back)
                event_emit(daemon,
                           tenant->lease.enforcement == ENFORCEMENT_ATTACHED ? EVENT_TENANT_ATTACHED :
                                                                               EVENT_TENANT_STARTED,
                           tenant, -1, "%s, user %u", tenant->lease.command, tenant->lease.owner);
        daemon_changed(daemon);
        return 0;
}

/* A tenant may cause as many as it likes: one of a kind a second is enough to know. */
static void on_event(struct daemon *daemon, struct tenant *tenant, const json_t *body)
{
        int kind = event_find(message_text(body, "name", ""));
        struct tenant_event_limit *limit;
        nsec now = clock_now();
        char more[64] = "";

        if (kind < 0 || kind >= TENANT_EVENTS)
                return;
        limit = &tenant->events[kind];
        limit->n_dropped += (uint64_t)message_number(body, "untold", 0);
        if (limit->at && now - limit->at < NSEC_PER_SEC) {
                limit->n_dropped++;
                return;
        }
        if (limit->n_dropped)
                (void)snprintf(more, sizeof(more), " (and %llu more before)", (unsigned long long)limit->n_dropped);
        event_emit(daemon, kind, tenant, -1, "process %lld: %s%s", (long long)message_number(body, "process", 0),
                   message_text(body, "text", ""), more);
        *limit = (struct tenant_event_limit){ .at = now };
}

static void on_changed(struct daemon *daemon, struct tenant *tenant, const json_t *body)
{
        tenant->set_done = (uint64_t)message_number(body, "serial", 0);
        (void)snprintf(tenant->set_text, sizeof(tenant->set_text), "%s",
                       message_flag(body, "ok", true) ? "" : message_text(body, "text", "the shim refused"));
        daemon_changed(daemon);
}

static void on_ended(struct tenant *tenant, const json_t *body)
{
        const json_t *report = json_object_get(body, "report");

        tenant->is_end_received = true;
        free(tenant->report);
        tenant->report = report ? json_dumps(report, JSON_COMPACT) : NULL;
}

int shims_handle(struct daemon *daemon, struct tenant *tenant, struct message *message)
{
        const char *type = message_type(message);

        if (!strcmp(type, "hello"))
                return on_hello(daemon, tenant, message);
        if (!strcmp(type, "event"))
                on_event(daemon, tenant, message->body);
        else if (!strcmp(type, "changed"))
                on_changed(daemon, tenant, message->body);
        else if (!strcmp(type, "moved"))
                suspend_moved(daemon, tenant, message->body);
        else if (!strcmp(type, "ended"))
                on_ended(tenant, message->body);
        else if (!strcmp(type, "failed"))
                event_emit(daemon, EVENT_GATE_FAILED, tenant, -1, "%s", message_text(message->body, "text", ""));
        return 0;
}
