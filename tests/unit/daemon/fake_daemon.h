/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon without sockets, threads or a driver: a table of tenants with control blocks of their own. */
#pragma once

#include "daemon/state/daemon.h"
#include "daemon/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>

enum {
        FAKE_DEVICES = 2,
        FAKE_TOTAL_GIB = 100,
};

static inline struct daemon *fake_daemon_new(void)
{
        struct daemon *daemon = calloc(1, sizeof(*daemon));

        daemon->uid = 4242;
        daemon->is_silent = true;
        daemon->since = 1000 * NSEC_PER_SEC;
        daemon->backend.name = "sim";
        (void)strcpy(daemon->backend.release, "580.159.04");
        daemon->n_devices = daemon->tenants.n_devices = daemon->machine.n_devices = FAKE_DEVICES;
        for (unsigned int i = 0; i < FAKE_DEVICES; i++) {
                daemon->devices[i].daemon = daemon;
                daemon->devices[i].index = i;
                (void)strcpy(daemon->devices[i].info.uuid, i ? "GPU-b" : "GPU-a");
                daemon->devices[i].info.total = daemon->tenants.totals[i] = FAKE_TOTAL_GIB * GIB;
                daemon->machine.devices[i].total = FAKE_TOTAL_GIB * GIB;
        }
        return daemon;
}

/* A page as a shim makes it; its descriptor is not needed. */
static inline struct control_block *fake_control_block_new(const char *tenant, uid_t owner)
{
        struct control_block *control = NULL;
        int fd = -1;

        if (control_block_new(tenant, owner, FAKE_DEVICES, &control, &fd) == 0)
                (void)close(fd);
        return control;
}

static inline struct tenant *fake_tenant_put(struct daemon *daemon, const char *name, uid_t owner, bytes gib,
                                             permille share)
{
        struct message_lease lease = {
                .owner = owner, .share = share, .cap = TURNS_WHOLE, .mode = "time", .command = "python3"
        };
        struct tenant *tenant = NULL;

        (void)strcpy(lease.tenant, name);
        lease.id = daemon->tenants.n + 1;
        lease.devices[0].is_granted = true;
        lease.devices[0].quota = gib * GIB;
        if (tenants_put(&daemon->tenants, &lease, &tenant) < 0)
                abort();
        tenant->daemon = daemon;
        tenant->since = 2000 * NSEC_PER_SEC;
        tenant->state = TENANT_RUNNING;
        tenant->control = fake_control_block_new(name, owner);
        daemon_divide(daemon);
        return tenant;
}

static inline void fake_daemon_free(struct daemon *daemon)
{
        while (daemon->tenants.first) {
                struct tenant *tenant = daemon->tenants.first;

                tenants_take(&daemon->tenants, tenant);
                tenant_free(tenant);
        }
        allocations_done(&daemon->allocations);
        (void)store_close(daemon->store);
        free(daemon);
}

/* ---- with a loop, for the files that own sockets */

static inline void fake_daemon_stop(struct loop_timer *timer)
{
        loop_stop(timer->context);
}

/* Lets the loop, made at first, handle what has happened. */
static inline void fake_daemon_turn(struct daemon *daemon)
{
        struct loop_timer timer = { .due = fake_daemon_stop };

        if (!daemon->loop && loop_new(&daemon->loop) < 0)
                abort();
        timer.context = daemon->loop;
        loop_timer_set(daemon->loop, &timer, 2 * NSEC_PER_MSEC, 0);
        if (loop_run(daemon->loop) < 0)
                abort();
}

/* How many events of that name there were. */
static inline unsigned int fake_events(const struct daemon *daemon, const char *name)
{
        unsigned int n = 0;

        for (size_t i = 0; i < EVENTS_KEPT; i++)
                n += daemon->events[i].id && !strcmp(daemon->events[i].name, name);
        return n;
}

static inline const char *fake_latest_detail(const struct daemon *daemon)
{
        return daemon->events[daemon->event_id % EVENTS_KEPT].detail;
}
