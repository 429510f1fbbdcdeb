/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tenants use, from their control blocks into the store, in one transaction a second.
 *
 * A control block's `used` only grows while its shim lives. Up to where it has been counted is stored with the usage
 * (S1 of store.h), and the difference is added. Memory counts as held until the next reading, also while there is no
 * daemon; so does what a suspended tenant has in host memory (tenant_swapped).
 */
#include "daemon/state/daemon.h"

#include "gate/gate.h"
#include "daemon/store/store.h"
#include "daemon/state/events.h"
#include "daemon/state/usage.h"

#include <string.h>

static bool is_counted(const struct daemon *daemon, const struct tenant *tenant)
{
        return daemon->store && tenant->control && tenant->lease.id;
}

static struct tenant_counted counted_of(const struct store_usage *usage)
{
        struct tenant_counted counted = {
                .used = usage->counted_used,
                .refused = usage->counted_refused,
                .held = usage->held,
                .peak = usage->peak,
                .swapped = usage->swapped,
        };

        memcpy(counted.engines, usage->counted_engines, sizeof(counted.engines));
        return counted;
}

void usage_start(struct daemon *daemon, struct tenant *tenant)
{
        if (!is_counted(daemon, tenant))
                return;
        tenant->counted_at = 0;
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                struct store_usage was;
                nsec at;

                if (!tenant_has(tenant, i) || store_usage_counted(daemon->store, tenant->lease.id, i, &was, &at) < 0)
                        continue;
                tenant->counted[i] = counted_of(&was);
                if (at > tenant->counted_at)
                        tenant->counted_at = at;
        }
        if (!tenant->counted_at)
                tenant->counted_at = clock_realtime();
}

void usage_restart(struct daemon *daemon, struct tenant *tenant)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                tenant->counted[i] = (struct tenant_counted){ .held = tenant->counted[i].held,
                                                              .peak = tenant->counted[i].peak,
                                                              .swapped = tenant->counted[i].swapped };
}

static void read_engines(const struct tenant *tenant, const struct tenant_counted *counted, struct store_usage *usage)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                const struct control_engine *on = control_block_engine(tenant->control, usage->device, engine);
                nsec used = on ? on->used : 0;

                usage->counted_engines[engine] = used > counted->engines[engine] ? used : counted->engines[engine];
                usage->engines[engine] = usage->counted_engines[engine] - counted->engines[engine];
        }
}

/* Memory times time, by what was there at the reading before. */
static uint64_t kib_ms(bytes was, nsec span)
{
        return was / KIB * (uint64_t)(span / NSEC_PER_MSEC);
}

/* Never negative, even if a control block should start again from 0. */
static struct store_usage read_usage(const struct tenant *tenant, const struct device *device, nsec now)
{
        const struct control_device *control = &tenant->control->devices[device->index];
        const struct tenant_counted *counted = &tenant->counted[device->index];
        nsec span = now > tenant->counted_at ? now - tenant->counted_at : 0;
        struct store_usage usage = { .tenant = tenant->lease.id,
                                     .device = device->index,
                                     .uuid = device->info.uuid,
                                     .at = now,
                                     .counted_used = control->used,
                                     .counted_refused = control->n_refused,
                                     .held = control->held,
                                     .peak = control->peak,
                                     .swapped = tenant_swapped(tenant, device->index),
                                     .kib_ms = kib_ms(counted->held, span),
                                     .host_kib_ms = kib_ms(counted->swapped, span) };

        if (usage.counted_used < counted->used)
                usage.counted_used = counted->used;
        if (usage.counted_refused < counted->refused)
                usage.counted_refused = counted->refused;
        usage.gpu = usage.counted_used - counted->used;
        usage.refused = usage.counted_refused - counted->refused;
        read_engines(tenant, counted, &usage);
        return usage;
}

static bool is_news(const struct store_usage *usage, const struct tenant_counted *counted)
{
        return usage->gpu || usage->kib_ms || usage->refused || usage->peak != counted->peak ||
               usage->held != counted->held || usage->swapped != counted->swapped || usage->host_kib_ms ||
               memcmp(usage->counted_engines, counted->engines, sizeof(counted->engines)) != 0;
}

/* The figures count as stored only after the commit: until then they are in `after`. */
static int count_tenant(struct daemon *daemon, struct tenant *tenant, nsec now, struct tenant_counted *after)
{
        int r = 0;

        memcpy(after, tenant->counted, sizeof(tenant->counted));
        for (unsigned int i = 0; i < daemon->n_devices && r == 0; i++) {
                struct store_usage usage;

                if (!tenant_has(tenant, i))
                        continue;
                usage = read_usage(tenant, &daemon->devices[i], now);
                if (!is_news(&usage, &tenant->counted[i]))
                        continue;
                r = store_usage_add(daemon->store, &usage);
                after[i] = counted_of(&usage);
        }
        return r;
}

static void mark_counted(struct tenant *tenant, nsec now, const struct tenant_counted *after)
{
        memcpy(tenant->counted, after, sizeof(tenant->counted));
        /* Less than a millisecond is left for the next time. */
        tenant->counted_at += (now - tenant->counted_at) / NSEC_PER_MSEC * NSEC_PER_MSEC;
}

/* One tenant, or all (NULL). */
static int count_all(struct daemon *daemon, struct tenant *only)
{
        struct tenant_counted(*after)[LEASE_DEVICES_MAX] = calloc(daemon->tenants.n + 1, sizeof(*after));
        nsec now = clock_realtime();
        size_t n = 0;
        int r = after ? store_begin(daemon->store) : -1;

        for (struct tenant *t = daemon->tenants.first; t && r == 0; t = t->next)
                if (is_counted(daemon, t) && (!only || t == only))
                        r = count_tenant(daemon, t, now, after[n++]);
        if (after && r == 0)
                r = store_commit(daemon->store);
        else if (after)
                store_rollback(daemon->store);
        n = 0;
        for (struct tenant *t = daemon->tenants.first; t && r == 0; t = t->next)
                if (is_counted(daemon, t) && (!only || t == only))
                        mark_counted(t, now, after[n++]);
        free(after);
        return r;
}

void usage_count(struct daemon *daemon)
{
        if (daemon->store)
                daemon_store_result(daemon, count_all(daemon, NULL));
}

void usage_count_last(struct daemon *daemon, struct tenant *tenant)
{
        if (is_counted(daemon, tenant))
                daemon_store_result(daemon, count_all(daemon, tenant));
}
