/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon knows of its devices, and what a change of a lease means for the tenants on them. */
#include "daemon/state/daemon.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"
#include "daemon/state/suspend/by_shim.h"

#include "base/cleanup.h"
#include "gate/gate.h"

#include <stdlib.h>

void device_read(struct device *device)
{
        nsec now = clock_now();

        if (!device->sched || now - device->read_at < 5 * NSEC_PER_MSEC)
                return;
        device->n_rows = sched_read(device->sched, &device->scheduled, device->rows, ARRAY_SIZE(device->rows));
        device->read_at = now;
}

const struct sched_row *device_row(const struct device *device, const struct tenant *tenant)
{
        for (size_t i = 0; i < device->n_rows; i++)
                if (device->rows[i].id == tenant->lease.id)
                        return &device->rows[i];
        return NULL;
}

const struct gpu_figures *device_health(const struct device *device)
{
        nsec age = clock_now() - device->health_at;

        return device->health_at && age < 3 * DEVICE_HEALTH_MSEC * NSEC_PER_MSEC ? &device->health : NULL;
}

static const struct event *latest(const struct daemon *daemon)
{
        return &daemon->events[daemon->event_id % EVENTS_KEPT];
}

void device_lose(struct device *device)
{
        struct daemon *daemon = device->daemon;

        if (device->is_lost)
                return;
        device->is_lost = daemon->tenants.is_lost[device->index] = true;
        event_emit(daemon, EVENT_DEVICE_LOST, NULL, (int)device->index, "%s", device->info.uuid);
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (!tenant_has(t, device->index))
                        continue;
                event_emit(daemon, EVENT_DEVICE_LOST, t, (int)device->index, "this tenant has it");
                shims_send_event(t, latest(daemon));
        }
}

void daemon_unschedule(struct daemon *daemon, struct tenant *tenant)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (daemon->devices[i].sched && tenant_has(tenant, i))
                        (void)sched_remove(daemon->devices[i].sched, tenant->lease.id, NULL);
}

void daemon_schedule(struct daemon *daemon, struct tenant *tenant)
{
        if (message_lease_is_mig(&tenant->lease)) /* an instance is its tenant's own */
                return;
        tenant->gang = tenants_gang(&daemon->tenants, tenant);
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                struct sched_tenant row = { .id = tenant->lease.id,
                                            .gang = tenant->gang,
                                            .team = mps_team(&tenant->lease),
                                            .control = tenant->control,
                                            .share = tenant->share,
                                            .cap = tenant->lease.cap,
                                            .class = tenant->lease.class,
                                            .goal = tenant->lease.goal };

                if (daemon->devices[i].sched && tenant_has(tenant, i) && sched_add(daemon->devices[i].sched, &row) < 0)
                        event_emit(daemon, EVENT_TENANT_NOT_SWITCHED, tenant, (int)i, "it cannot be put on the list");
        }
}

void daemon_divide(struct daemon *daemon)
{
        (void)tenants_divide(&daemon->tenants);
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                for (unsigned int i = 0; i < daemon->n_devices && t->control; i++) {
                        struct control_device *control = &t->control->devices[i];

                        if (!tenant_has(t, i) ||
                            (control->share == t->share && control->cap == t->lease.cap &&
                             control->class == (uint32_t)t->lease.class && t->goal == t->lease.goal))
                                continue;
                        control->share = t->share;
                        control->cap = t->lease.cap;
                        control->class = (uint32_t)t->lease.class;
                        if (daemon->devices[i].sched)
                                (void)sched_change(daemon->devices[i].sched, t->lease.id, t->share, t->lease.cap,
                                                   t->lease.class, t->lease.goal);
                }
                t->goal = t->lease.goal;
        }
}

void daemon_remember(struct daemon *daemon)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                device_read(&daemon->devices[i]);
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (!t->minute && !(t->minute = calloc(1, sizeof(*t->minute))))
                        continue; /* no memory: nothing is remembered */
                for (unsigned int i = 0; i < daemon->n_devices; i++) {
                        const struct sched_row *row = tenant_has(t, i) ? device_row(&daemon->devices[i], t) : NULL;

                        t->minute->granted[i][t->minute->n % TENANT_MINUTE] = row ? (uint16_t)row->granted : 0;
                }
                t->minute->n++;
        }
}

void daemon_look_kept(struct daemon *daemon)
{
        bool has_changed = false;

        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                bool is_kept = t->state == TENANT_RUNNING && control_block_kept_by(t->control);

                if (is_kept == t->is_kept)
                        continue;
                has_changed = true;
                t->is_kept = is_kept;
                by_shim_hold_kept(daemon, t);
        }
        if (has_changed)
                daemon_divide(daemon);
}

void daemon_heartbeat(struct daemon *daemon)
{
        nsec now = clock_now();

        if (now - daemon->heartbeat_at < CONTROL_BLOCK_HEARTBEAT_MSEC * NSEC_PER_MSEC / 2)
                return;
        daemon->heartbeat_at = now;
        for (struct tenant *t = daemon->tenants.first; t; t = t->next)
                if (t->control)
                        t->control->heartbeat = now;
}

void daemon_changed(struct daemon *daemon)
{
        if (daemon->on_change)
                daemon->on_change(daemon);
}
