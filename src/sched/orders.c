/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out orders. First the tenants to be enabled, then those to be disabled: so the device never idles in between,
 * and the sum is two points better at 20 ms windows (docs/time.md). Each half is one call for all its tenants, as long
 * as their channels fit. The control block says it before the call is made: wire/control_block.h.
 */
#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>

#define RETRY (100 * NSEC_PER_MSEC) /* after a call that failed */

/* ---- a call ---------------------------------------------------------------------------------- */

/* 0; -ENODEV; -EIO. */
static int make_call(struct sched *sched, const struct gpu_channel *list, size_t n, enum trace_call call,
                     uint64_t tenant, uint32_t *ret_status)
{
        struct trace_span span = { .kind = TRACE_CALL, .tenant = tenant, .detail = call };
        int r;

        if (!n)
                return 0;
        span.from = clock_now();
        if (call == TRACE_CALL_RETIRE)
                r = gpu_channels_retire(sched->client, list, n, ret_status);
        else
                r = gpu_channels_set(sched->client, list, n, call == TRACE_CALL_DISABLE, ret_status);
        span.until = clock_now();
        trace_put(sched->trace, &span);
        {
                LOCKED(&sched->lock);
                sched->state.n_calls++;
        }
        return r;
}

static enum trace_call call_of(bool is_disabled)
{
        return is_disabled ? TRACE_CALL_DISABLE : TRACE_CALL_ENABLE;
}

bool orders_list(struct sched *sched, size_t n, const struct gpu_channel *channels, size_t n_more)
{
        if (n + n_more > sched->list_room) {
                size_t room = 2 * (n + n_more);
                struct gpu_channel *list = realloc(sched->list, room * sizeof(*list));

                if (!list)
                        return false;
                sched->list = list;
                sched->list_room = room;
        }
        for (size_t i = 0; i < n_more; i++)
                sched->list[n + i] = channels[i];
        return true;
}

int orders_call(struct sched *sched, size_t n, bool is_disabled, uint32_t *ret_status)
{
        return make_call(sched, sched->list, n, call_of(is_disabled), 0, ret_status);
}

/* ---- what a call has done -------------------------------------------------------------------- */

static void switch_succeeded(struct sched *sched, struct sched_entity *tenant, bool is_disabled, nsec at)
{
        if (tenant->is_disabled && !is_disabled && tenant->off_since) {
                struct trace_span span = {
                        .from = tenant->off_since, .until = at, .tenant = tenant->id, .kind = TRACE_OFF
                };

                trace_put(sched->trace, &span);
        }
        tenant->off_since = is_disabled ? at : 0;
        tenant->is_disabled = is_disabled;
        tenant->must_enable = false;
        if (is_disabled)
                engines_note_all_off(tenant);
        if (tenant->has_failed)
                sched_event_put(sched, SCHED_SWITCHED, tenant->id, 0);
        tenant->has_failed = false;
}

static void switch_failed(struct sched *sched, struct sched_entity *tenant, nsec at, uint32_t status)
{
        if (!tenant->has_failed)
                sched_event_put(sched, SCHED_NOT_SWITCHED, tenant->id, status);
        tenant->has_failed = true;
        tenant->retry_at = at + RETRY;
}

/* What a call for the tenant switches: enabled, not what engines.c enables when the time has come. False: no room. */
static bool list_channels(struct sched *sched, size_t *n, const struct sched_entity *tenant, size_t skip,
                          bool is_disabled)
{
        size_t to = *n;

        if (!is_disabled && control_block_is_held(tenant->control))
                return true; /* its memory is away */
        for (size_t i = skip; i < tenant->channels.n; i++) {
                if (is_disabled ? engines_has_off(tenant, i) : tenant->engines[tenant->channels.engines[i]].is_disabled)
                        continue; /* the driver counts: once is enough, and costs one call to undo */
                if (!orders_list(sched, to, &tenant->channels.list[i], 1))
                        return false;
                to++;
        }
        *n = to;
        return true;
}

/* A tenant of the failed call that has not been tried alone yet, with its channels in sched->list; NULL: none is
 * left. */
static struct sched_entity *next_in_call(struct sched *sched, bool is_disabled, size_t *ret_n)
{
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                if (!tenant->is_in_call)
                        continue;
                tenant->is_in_call = false;
                *ret_n = 0;
                (void)list_channels(sched, ret_n, tenant, 0, is_disabled);
                return tenant;
        }
        return NULL;
}

/* After a failed call for several: one call for each. */
static int switch_each(struct sched *sched, bool is_disabled)
{
        uint32_t status = 0;
        uint64_t id;
        size_t n;
        int r = 0;

        for (;;) {
                {
                        LOCKED(&sched->lock);
                        struct sched_entity *tenant = next_in_call(sched, is_disabled, &n);

                        if (!tenant)
                                return r;
                        id = tenant->id;
                }
                r = make_call(sched, sched->list, n, call_of(is_disabled), id, &status);
                if (r == -ENODEV)
                        return r;
                {
                        LOCKED(&sched->lock);
                        struct sched_entity *tenant = sched_entity_find(sched, id);

                        if (tenant && r < 0)
                                switch_failed(sched, tenant, clock_now(), status);
                        else if (tenant)
                                switch_succeeded(sched, tenant, is_disabled, clock_now());
                }
        }
}

static void switch_all_succeeded(struct sched *sched, bool is_disabled)
{
        LOCKED(&sched->lock);
        nsec now = clock_now();

        for (size_t i = 0; i < sched->n_tenants; i++) {
                if (!sched->tenants[i]->is_in_call)
                        continue;
                sched->tenants[i]->is_in_call = false;
                switch_succeeded(sched, sched->tenants[i], is_disabled, now);
        }
}

/* ---- which tenants are switched ---------------------------------------------------------------- */

static void doubt_if(struct sched *sched, const struct sched_entity *tenant)
{
        if (tenant->is_doubted || clock_now() < tenant->doubted_until)
                gpu_channels_doubt(sched->client, tenant->channels.list, tenant->channels.n);
}

/* Before it is enabled. As long as its shim may yet disable its channels (S4), the next time is doubted, too. */
static void doubt(struct sched *sched, struct sched_entity *tenant)
{
        doubt_if(sched, tenant);
        tenant->is_doubted = tenant->device->is_reenabled;
}

/* Writes the control block first, then reads its channels. Those that have been retired are off already. */
static size_t list_tenant(struct sched *sched, size_t n, struct sched_entity *tenant, bool is_disabled)
{
        size_t skip;

        tenant->device->is_disabled = is_disabled;
        tally_channels(sched, tenant);
        if (!is_disabled)
                doubt(sched, tenant);
        skip = is_disabled && tenant->is_retired && tenant->order.is_gentle ? tenant->channels.n_compute : 0;
        if (!list_channels(sched, &n, tenant, skip, is_disabled))
                return n; /* no memory: tried again in the next pass */
        if (is_disabled)
                engines_note_off(sched, tenant, clock_now());
        tenant->is_in_call = true;
        tenant->is_retired = skip != 0;
        return n;
}

static size_t list_retiring(struct sched *sched, nsec now)
{
        LOCKED(&sched->lock);
        size_t n = 0;

        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                if (!tenant->order.is_disabled || !tenant->order.is_gentle || tenant->is_disabled ||
                    now < tenant->retry_at)
                        continue;
                tenant->device->is_disabled = true;
                tenant->is_retired = false;
                tally_channels(sched, tenant);
                if (!orders_list(sched, n, tenant->channels.list, tenant->channels.n_compute))
                        continue;
                n += tenant->channels.n_compute;
                tenant->is_retired = true;
        }
        return n;
}

static void retire_failed(struct sched *sched)
{
        LOCKED(&sched->lock);

        for (size_t i = 0; i < sched->n_tenants; i++)
                if (!sched->tenants[i]->is_disabled)
                        sched->tenants[i]->is_retired = false;
}

/* The compute channels of those that may end what they do. Their other channels are disabled after that, as all are of
 * those for which it fails. */
static bool retire_all(struct sched *sched, nsec now)
{
        size_t n = list_retiring(sched, now);
        uint32_t status;
        int r = make_call(sched, sched->list, n, TRACE_CALL_RETIRE, 0, &status);

        if (r < 0)
                retire_failed(sched);
        return r != -ENODEV;
}

/* Tenants that were removed. Their control blocks are gone. */
static size_t list_removed(struct sched *sched, size_t n)
{
        while (sched->removed) {
                struct sched_entity *tenant = sched->removed;

                if (!tenant->must_enable) {
                        gpu_channels_forget(sched->client, tenant->channels.list, tenant->channels.n);
                } else {
                        doubt_if(sched, tenant);
                        if (orders_list(sched, n, tenant->channels.list, tenant->channels.n))
                                n += tenant->channels.n;
                }
                sched->removed = tenant->next;
                (void)sched_entity_free(tenant);
        }
        return n;
}

/* Also one that had been retired, and now must not run at all, and one that its shim may be about to disable. */
static bool is_to_switch(const struct sched_entity *tenant)
{
        if (tenant->is_disabled != tenant->order.is_disabled || (tenant->must_enable && !tenant->order.is_disabled))
                return true;
        return tenant->is_disabled && tenant->is_retired && !tenant->order.is_gentle;
}

/* Before any list is made, so that none of them has been made anew and disabled. */
static void forget_gone(struct sched *sched)
{
        gpu_channels_forget(sched->client, sched->gone, sched->n_gone);
        sched->n_gone = 0;
}

static size_t list_tenants(struct sched *sched, bool is_disabled, nsec now)
{
        LOCKED(&sched->lock);
        size_t n = is_disabled ? 0 : list_removed(sched, 0);

        forget_gone(sched);
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                if (tenant->order.is_disabled == is_disabled && is_to_switch(tenant) && now >= tenant->retry_at)
                        n = list_tenant(sched, n, tenant, is_disabled);
        }
        return n;
}

static bool switch_all(struct sched *sched, bool is_disabled, nsec now)
{
        size_t n = list_tenants(sched, is_disabled, now);
        uint32_t status = 0;
        int r = make_call(sched, sched->list, n, call_of(is_disabled), 0, &status);

        if (r == -EIO)
                r = switch_each(sched, is_disabled);
        else if (!r)
                switch_all_succeeded(sched, is_disabled);
        return r != -ENODEV;
}

/* ---- kicks ----------------------------------------------------------------------------------- */

static bool anybody_is_off(const struct sched *sched)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->is_disabled && !control_block_is_held(sched->tenants[i]->control))
                        return true;
        return false;
}

/* While nobody is on the device, and not while its shim switches the same channels: at a takeover it does (S4). */
static bool is_due(const struct sched *sched, struct sched_entity *tenant, nsec now)
{
        bool is_stalled = stall_kick(sched, tenant, now);

        return !sched->is_occupied && !tenant->device->is_reenabled && (tenant->must_kick || is_stalled);
}

static struct sched_entity *kick_candidate(struct sched *sched, nsec now)
{
        struct sched_entity *tenant = sched->resident;

        if (!sched->meter || anybody_is_off(sched))
                return NULL;
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (!control_block_is_held(sched->tenants[i]->control) && is_due(sched, sched->tenants[i], now))
                        return sched->tenants[i];
        if (!tenant || !sched->is_occupied || control_block_is_held(tenant->control))
                return NULL;
        if (tenant->device->can_watch)
                return quiet_kick(sched, tenant, now) ? tenant : NULL;
        if (now - sched->occupied_since < tenant->kick_after || now - tenant->kicked_at < tenant->kick_after)
                return NULL;
        return tenant;
}

static size_t list_kicked(struct sched *sched, size_t n, struct sched_entity *tenant, nsec now)
{
        tenant->kicked_at = tenant->must_kick ? 0 : now;
        tenant->must_kick = false;
        n = list_tenant(sched, n, tenant, true);
        tenant->is_in_call = false;
        tenant->is_disabled = true; /* and its order says enabled */
        tenant->off_since = now;
        return n;
}

/* A tenant, or all of a team, if one is to be kicked: its channels in sched->list. */
static bool list_kick(struct sched *sched, nsec now, size_t *ret_n)
{
        LOCKED(&sched->lock);
        const struct sched_entity *one = kick_candidate(sched, now);
        struct sched_team *team = one || !sched->meter || anybody_is_off(sched) ? NULL : team_kick(sched, now);

        *ret_n = 0;
        if (team)
                team->kicked_at = now;
        for (size_t i = 0; i < sched->n_tenants && (one || team); i++)
                if (sched->tenants[i] == one || (team && sched->tenants[i]->team == team))
                        *ret_n = list_kicked(sched, *ret_n, sched->tenants[i], now);
        return one || team;
}

static bool kick_resident(struct sched *sched, nsec now)
{
        uint32_t status;
        size_t n;

        if (!list_kick(sched, now, &n))
                return true;
        return make_call(sched, sched->list, n, TRACE_CALL_DISABLE, 0, &status) != -ENODEV &&
               switch_all(sched, false, now);
}

/* ---- all of it --------------------------------------------------------------------------------- */

static void slices_write(struct sched *sched)
{
        LOCKED(&sched->lock);

        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                if (tenant->device->slice == tenant->order.slice)
                        continue;
                tenant->device->slice = tenant->order.slice;
                control_block_notify(tenant->control);
        }
}

bool orders_apply(struct sched *sched, nsec now)
{
        slices_write(sched);
        return switch_all(sched, false, now) && retire_all(sched, now) && switch_all(sched, true, now) &&
               engines_apply(sched, now) && kick_resident(sched, now);
}

void orders_end(struct sched *sched)
{
        {
                LOCKED(&sched->lock);
                for (size_t i = 0; i < sched->n_tenants; i++) {
                        struct sched_entity *tenant = sched->tenants[i];

                        tenant->order = (struct turns_order){ 0 };
                        tenant->retry_at = 0;
                        engines_release(sched, tenant);
                        tenant->device->is_disabled = 0;
                        tenant->device->slice = 0;
                        tenant->device->watch = 0;
                        control_block_notify(tenant->control);
                }
        }
        if (!sched->state.is_lost)
                (void)(switch_all(sched, false, clock_now()) && engines_apply(sched, clock_now()));
}
