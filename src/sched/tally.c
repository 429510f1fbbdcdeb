/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes what the meter says. A context's number is that of its group's first channel, which is in the tenant's
 * control block; a context that is not, or no longer, in a control block is known by the process that made its client,
 * the tenant's shim. One context at a time is on the device, so a new one ends the one before, also without a record.
 */
#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A channel that is new while its tenant is off may be disabled by the gate and by a call of ours, and nobody knows of
 * both. It is known to us before the gate has seen to it, so for so long. */
#define DOUBTED NSEC_PER_SEC

/* ---- intervals ------------------------------------------------------------------------------- */

static struct sched_entity *tenant_of_shim(const struct sched *sched, uint32_t pid)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                if ((uint32_t)sched->tenants[i]->control->shim == pid)
                        return sched->tenants[i];
        return NULL;
}

static struct sched_entity *tenant_of_record(const struct sched *sched, const struct meter_record *record)
{
        struct sched_entity *tenant = map_get(&sched->contexts, record->context);

        return tenant ? tenant : tenant_of_shim(sched, record->pid);
}

/* They work at once, and so do their spans. */
static void trace_team(struct sched *sched, struct trace_span span)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->team == sched->team && team_is_at_work(sched, sched->tenants[i])) {
                        span.tenant = sched->tenants[i]->id;
                        trace_put(sched->trace, &span);
                }
}

static void close_interval(struct sched *sched, nsec at)
{
        struct sched_entity *tenant = sched->resident;
        struct trace_span span = {
                .from = sched->occupied_since, .until = at, .tenant = tenant ? tenant->id : 0, .detail = sched->context
        };

        if (!sched->is_occupied)
                return;
        team_off(sched->team, sched->occupied_since, at, !tenant);
        if (tenant) {
                tenant->closed += at - sched->occupied_since;
                tenant->stopped_at = at;
                quiet_account(sched, tenant, at);
        } else if (!sched->team)
                sched->state.foreign_used += at - sched->occupied_since;
        sched->busy_used += at - sched->occupied_since;
        if (tenant || !sched->team)
                trace_put(sched->trace, &span);
        else
                trace_team(sched, span);
        sched->is_occupied = false;
        sched->resident = NULL;
        sched->team = NULL;
}

/* It is on the device: by itself, or because a kick had disabled it while it had work. */
static void kick_answered(struct sched_entity *tenant, nsec at)
{
        bool is_answer = tenant->kicked_at && at >= tenant->kicked_at && at - tenant->kicked_at < KICK_ANSWER;

        if (!is_answer)
                tenant->kick_after = KICK_FIRST;
        else if (tenant->kick_after < KICK_LAST)
                tenant->kick_after *= 2;
}

/* The driver's own contexts have no process. */
static void note_unknown(struct sched *sched, const struct meter_record *record)
{
        size_t n = sched->n_unknown < SCHED_UNKNOWN_MAX ? sched->n_unknown : SCHED_UNKNOWN_MAX;

        if (record->pid == UINT32_MAX)
                return;
        for (size_t i = 0; i < n; i++)
                if (sched->unknown[i] == record->pid)
                        return;
        sched->unknown[sched->n_unknown++ % SCHED_UNKNOWN_MAX] = record->pid;
        sched_event_put(sched, SCHED_UNKNOWN, 0, (int64_t)((uint64_t)record->pid << 32 | record->context));
}

static void open_interval(struct sched *sched, const struct meter_record *record)
{
        sched->is_occupied = true;
        sched->resident = tenant_of_record(sched, record);
        sched->team = sched->resident ? sched->resident->team : team_of_server(sched, record->pid);
        sched->context = record->context;
        sched->process = record->pid;
        sched->occupied_since = record->at;
        sched->state.n_switches++;
        team_on(sched->team, record->at);
        if (!sched->resident && !sched->team)
                note_unknown(sched, record);
        if (!sched->resident)
                return;
        sched->resident->started_at = record->at;
        sched->resident->n_turns++;
        quiet_resumed(sched->resident, record->at);
        kick_answered(sched->resident, record->at);
}

void tally_records(struct sched *sched, const struct meter_record *records, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (records[i].is_on || (sched->is_occupied && sched->context == records[i].context))
                        close_interval(sched, records[i].at);
                if (records[i].is_on)
                        open_interval(sched, &records[i]);
        }
}

static void tenant_bill(struct sched *sched, struct sched_entity *tenant)
{
        nsec billed;

        if (sched->is_occupied && sched->resident == tenant)
                quiet_account(sched, tenant, sched->state.metered_until);
        quiet_settle(sched, tenant);
        billed = tenant->used - (tenant->quiet.idle.forgiven > 0 ? tenant->quiet.idle.forgiven : 0);
        if (billed <= tenant->billed)
                return;
        tenant->billed = billed;
        tenant->device->used = billed;
}

/* An open interval counts, but a reading from before it takes nothing back. */
void tally_until(struct sched *sched, nsec until)
{
        struct sched_entity *resident = sched->resident;

        if (sched->is_occupied && until < sched->occupied_since)
                until = sched->occupied_since;
        if (until > sched->state.metered_until)
                sched->state.metered_until = until;
        teams_until(sched);
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];
                nsec used = tenant->closed;

                if (tenant == resident && sched->state.metered_until > sched->occupied_since)
                        used += sched->state.metered_until - sched->occupied_since;
                tenant->used = used > tenant->used ? used : tenant->used;
                tenant_bill(sched, tenant);
        }
}

/* ---- control blocks ---------------------------------------------------------------------------------- */

void tally_forget(struct sched *sched, struct sched_entity *tenant)
{
        for (size_t i = 0; i < tenant->channels.n_contexts; i++)
                if (map_get(&sched->contexts, tenant->channels.contexts[i]) == tenant)
                        (void)map_take(&sched->contexts, tenant->channels.contexts[i]);
        tenant->channels.n_contexts = 0;
}

/* Whether it is its group's first channel: rows have no order. */
static bool is_first(const struct control_channel *rows, size_t n, const struct control_channel *row)
{
        for (size_t i = 0; i < n; i++)
                if (rows[i].client == row->client && rows[i].group == row->group && rows[i].order < row->order)
                        return false;
        return true;
}

/* The number may have been another tenant's before. */
static void context_learn(struct sched *sched, struct sched_entity *tenant, uint32_t context)
{
        if (tenant->channels.n_contexts == SCHED_CONTEXTS)
                return;
        (void)map_take(&sched->contexts, context);
        if (map_put(&sched->contexts, context, tenant) < 0)
                return;
        tenant->channels.contexts[tenant->channels.n_contexts++] = context;
        if (sched->is_occupied && !sched->resident && !sched->team && sched->context == context) {
                sched->resident = tenant; /* the meter saw it before its channel was in the control block */
                sched->team = tenant->team;
        }
}

/* The meter may name any group: that it says copy engine means nothing. */
static void channels_list(struct sched *sched, struct sched_entity *tenant, const struct control_channel *rows,
                          size_t n, bool is_compute)
{
        for (size_t i = 0; i < n; i++) {
                enum rm_engine engine;

                if (!rows[i].is_compute == is_compute || rows[i].device != sched->state.device)
                        continue;
                engine = rows[i].engine < RM_N_ENGINES ? rows[i].engine : RM_ENGINE_NONE;
                tenant->channels.engines[tenant->channels.n] = (uint8_t)engine;
                tenant->channels.orders[tenant->channels.n] = rows[i].order;
                tenant->channels.n_of[engine]++;
                tenant->channels.list[tenant->channels.n++] = (struct gpu_channel){ rows[i].client, rows[i].handle };
                if (!is_first(rows, n, &rows[i]))
                        continue;
                tenant->channels.n_groups += is_compute;
                context_learn(sched, tenant, rows[i].cid);
        }
}

static int compare_rows(const void *a, const void *b)
{
        const struct control_channel *x = a, *y = b;

        if (x->client != y->client)
                return x->client < y->client ? -1 : 1;
        return x->handle < y->handle ? -1 : x->handle > y->handle;
}

/* Notes which of the tenant's channels are no more. `rows` is sorted. Without memory it is a count too many that stays:
 * gpu/control.c. */
static void channels_note_gone(struct sched *sched, const struct sched_channels *channels,
                               const struct control_channel *rows, size_t n)
{
        for (size_t i = 0; i < channels->n; i++) {
                const struct control_channel key = { .client = channels->list[i].client,
                                                     .handle = channels->list[i].handle };

                if (bsearch(&key, rows, n, sizeof(*rows), compare_rows))
                        continue;
                if (sched->n_gone == sched->gone_room) {
                        size_t room = 2 * sched->gone_room + 64;
                        struct gpu_channel *gone = realloc(sched->gone, room * sizeof(*gone));

                        if (!gone)
                                return;
                        sched->gone = gone;
                        sched->gone_room = room;
                }
                sched->gone[sched->n_gone++] = channels->list[i];
        }
}

static bool channels_grow(struct sched_channels *channels, size_t n)
{
        struct gpu_channel *list = realloc(channels->list, (n ? n : 1) * sizeof(*list));
        uint8_t *engines = realloc(channels->engines, n ? n : 1);
        uint32_t *orders = realloc(channels->orders, (n ? n : 1) * sizeof(*orders));

        channels->list = list ? list : channels->list;
        channels->engines = engines ? engines : channels->engines;
        channels->orders = orders ? orders : channels->orders;
        return list && engines && orders;
}

static bool channels_learn(struct sched *sched, struct sched_entity *tenant, struct control_channel *rows, size_t n)
{
        qsort(rows, n, sizeof(*rows), compare_rows);
        channels_note_gone(sched, &tenant->channels, rows, n);
        if (!channels_grow(&tenant->channels, n > tenant->channels.n ? n : tenant->channels.n))
                return false; /* stays as it was; tried again in the next pass */
        memset(tenant->channels.n_of, 0, sizeof(tenant->channels.n_of));
        tenant->channels.n = 0;
        tenant->channels.n_groups = 0;
        tally_forget(sched, tenant);
        channels_list(sched, tenant, rows, n, true); /* a long list takes several calls */
        tenant->channels.n_compute = tenant->channels.n;
        channels_list(sched, tenant, rows, n, false);
        return true;
}

void tally_channels(struct sched *sched, struct sched_entity *tenant)
{
        uint32_t sequence = tenant->control->sequence;
        size_t n;

        if ((tenant->channels.is_known && sequence == tenant->channels.sequence) || sequence & 1)
                return;
        n = control_block_channels(tenant->control, sched->rows, &sequence);
        if (sequence & 1)
                return; /* its shim is in the middle of a change, or has died there */
        if (!channels_learn(sched, tenant, sched->rows, n))
                return;
        tenant->channels.sequence = sequence;
        tenant->channels.is_known = true;
        if (tenant->is_disabled || tenant->device->is_disabled)
                tenant->is_doubted = true;
        tenant->doubted_until = clock_now() + DOUBTED;
}

/* ---- the past second ------------------------------------------------------------------------- */

void tally_second(struct sched *sched, nsec now)
{
        size_t at = sched->n_ticks % SCHED_TICKS;

        if (now - sched->ticked_at < SCHED_TICK)
                return;
        sched->ticked_at = now;
        sched->ticks[at] = sched->state.metered_until;
        sched->foreign_at[at] = sched->state.foreign_used;
        sched->busy_at[at] = sched->busy_used;
        if (sched->is_occupied && sched->state.metered_until > sched->occupied_since)
                sched->busy_at[at] += sched->state.metered_until - sched->occupied_since;
        for (size_t i = 0; i < sched->n_tenants; i++) {
                sched->tenants[i]->billed_at[at] = sched->tenants[i]->billed;
                sched->tenants[i]->entitled_at[at] = sched->tenants[i]->entitled;
        }
        engines_second(sched, at);
        sched->n_ticks++;
}

static permille permille_of(nsec some, nsec all)
{
        if (all <= 0 || some <= 0)
                return 0;
        return some >= all ? TURNS_WHOLE : (permille)((some * TURNS_WHOLE + all / 2) / all);
}

struct second {
        size_t first, last; /* ticks */
        nsec span;          /* from one to the other */
};

static struct second past_second(const struct sched *sched)
{
        struct second ret = { .last = (sched->n_ticks + SCHED_TICKS - 1) % SCHED_TICKS,
                              .first = sched->n_ticks < SCHED_TICKS ? 0 : sched->n_ticks % SCHED_TICKS };

        ret.span = sched->n_ticks ? sched->ticks[ret.last] - sched->ticks[ret.first] : 0;
        return ret;
}

void tally_rates(const struct sched *sched, const struct sched_entity *tenant, struct sched_row *ret)
{
        struct second past = past_second(sched);

        ret->granted = permille_of(tenant->billed_at[past.last] - tenant->billed_at[past.first], past.span);
        ret->promised = permille_of(tenant->entitled_at[past.last] - tenant->entitled_at[past.first], past.span);
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                const struct sched_engine *at = &tenant->engines[engine];

                ret->engines[engine] = (struct sched_row_engine){
                        .used = at->used,
                        .granted = permille_of(at->used_at[past.last] - at->used_at[past.first], past.span),
                        .is_disabled = at->is_disabled,
                        .has_channels = tenant->channels.n_of[engine] > 0,
                };
        }
}

void tally_device(const struct sched *sched, struct sched_device *ret)
{
        struct second past = past_second(sched);

        ret->busy = permille_of(sched->busy_at[past.last] - sched->busy_at[past.first], past.span);
        ret->foreign = permille_of(sched->foreign_at[past.last] - sched->foreign_at[past.first], past.span);
}
