/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.sock: where libsublet.so hands a tenant's process over to a gate (preload/attach.h).
 *
 * It may be mounted into a container: it accepts nothing else, and where the kernel can refuse descriptors (6.16) none
 * before the token: those that do not close would keep others out (base/descriptors.h). The token of a lease descriptor
 * proves the tenancy, and gives the gate of that very tenancy only, to one process at a time. "attach" marks the usage
 * segment, so that no program begins to count inside meanwhile; "listener" starts the shim.
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/gate.h"
#include "net/socket.h"
#include "preload/usage_segment.h"
#include "shim/shim.h"
#include "daemon/containers/attach.h"
#include "daemon/state/events.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_token(const char *text, const uint8_t token[static LEASE_DESCRIPTOR_TOKEN])
{
        char right[2 * LEASE_DESCRIPTOR_TOKEN + 1];
        unsigned int differs = strlen(text) != 2 * LEASE_DESCRIPTOR_TOKEN;

        for (size_t i = 0; i < LEASE_DESCRIPTOR_TOKEN; i++)
                (void)snprintf(right + 2 * i, 3, "%02x", token[i]);
        for (size_t i = 0; i < 2 * LEASE_DESCRIPTOR_TOKEN && !(differs && text[i] == '\0'); i++)
                differs |= (unsigned int)(text[i] ^ right[i]);
        return !differs;
}

static struct tenant *tenant_of(struct daemon *daemon, const json_t *body)
{
        struct tenant *tenant = tenants_find_id(&daemon->tenants, (uint64_t)message_number(body, "tenancy", 0));

        return tenant && tenant->segment >= 0 && is_token(message_text(body, "token", ""), tenant->token) ? tenant :
                                                                                                            NULL;
}

/* NULL: no program counts inside. The mark comes first: later programs see it, earlier ones are in the scan. */
static const char *mark_segment(struct tenant *tenant)
{
        struct usage_segment_totals books;
        int r;

        if (usage_segment_set_attached(tenant->segment, true) < 0)
                return "the region cannot be written";
        r = preloads_look(tenant, &books);
        if (r < 0)
                return r == -EAGAIN ? "to look at the region takes too long" : "the region is damaged";
        return books.n_processes ? "a process of the tenant keeps its books inside already" : NULL;
}

static const char *attach_begin(struct tenant *tenant)
{
        const char *why;

        if (tenant->lease.enforcement != ENFORCEMENT_PRELOAD)
                return "the tenant has a gate, and this process was not started below it";
        if (tenant->is_attaching)
                return "another process of the tenant is attaching";
        why = mark_segment(tenant);
        if (why)
                (void)usage_segment_set_attached(tenant->segment, false);
        else
                tenant->is_attaching = true;
        return why;
}

void attach_undo(struct daemon *daemon, uint64_t tenancy)
{
        struct tenant *tenant = tenancy ? tenants_find_id(&daemon->tenants, tenancy) : NULL;

        if (!tenant || !tenant->is_attaching)
                return;
        tenant->is_attaching = false;
        (void)usage_segment_set_attached(tenant->segment, false);
}

/* The shim takes over run's socket and the accounting. */
static const char *hand_over(struct daemon *daemon, struct tenant *tenant, int listener)
{
        _cleanup_(closep) int run = -1;
        struct err err = { 0 };

        if (listener < 0 || !shim_is_listener(listener))
                return "what was sent as the tenant's listener is none";
        loop_drop(daemon->loop, &tenant->source);
        run = TAKE_FD(tenant->source.fd);
        tenant->lease.enforcement = ENFORCEMENT_ATTACHED;
        tenant->is_attaching = false;
        if (shims_start(daemon, tenant, listener, run, -1, -1, &err) == 0)
                return NULL;
        /* Its driver calls fail from here on, and no shim will ever end it. */
        event_emit(daemon, EVENT_GATE_FAILED, tenant, -1, "%s", err.text);
        shims_finish(daemon, tenant);
        return "its shim cannot be started";
}

/* NULL: attached; "": go on; else why it is refused. */
static const char *attach_step(struct daemon *daemon, uint64_t *tenancy, struct message *message)
{
        struct tenant *tenant = tenants_find_id(&daemon->tenants, *tenancy);
        int listener = message_fd(message, 0);
        const char *type = message_type(message), *why;

        if (!*tenancy && !strcmp(type, "attach")) {
                tenant = tenant_of(daemon, message->body);
                why = tenant ? attach_begin(tenant) : "there is no such tenancy";
                *tenancy = why ? 0 : tenant->lease.id;
                return why ? why : "";
        }
        if (!tenant || !tenant->is_attaching)
                return "nothing was asked for";
        if (!strcmp(type, "listener"))
                return hand_over(daemon, tenant, listener);
        event_emit(daemon, EVENT_NOT_ATTACHED, tenant, -1, "the filter: %s",
                   strerror((int)(message_number(message->body, "code", 0) & 4095)));
        attach_undo(daemon, *tenancy); /* before the answer, after which the program goes on inside */
        return "it could not be done";
}

bool attach_handle(struct daemon *daemon, int socket, uint64_t *tenancy, struct message *message)
{
        const char *why = attach_step(daemon, tenancy, message);
        json_t *body;

        if (why && !*why)
                socket_take_descriptors(socket); /* before it hears so and sends one */
        body = message_new(!why ? "attached" : *why ? "refused" : "go");

        if (why && *why)
                (void)json_object_set_new(body, "text", json_string(why));
        (void)message_send(socket, body, NULL, 0);
        return !why || *why;
}
