/* What the daemon says to a shim. Nothing waits: a socket that is full is a shim that does not listen. */
#include "daemon/state/daemon.h"
#include "daemon/state/shims.h"

#include <errno.h>
#include <stdio.h>

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
