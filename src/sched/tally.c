/*
 * What the meter says, attributed. A context's number is that of its group's first channel, which the tenant's
 * board has; a context that is not (or no more) on a board is known by the process that made its client, which is
 * the tenant's keeper. One context at a time is on the device, so who comes on ends who was, also without a record.
 *
 * Who is on the device need not work: a context that is alone stays. So where launches can be seen, the end of an
 * interval without a sign of work is held back from what is billed (QUIET after the latest sign), until it is known:
 * who comes on again without a new launch had been at work, in a long kernel; who comes with one, or never, was idle.
 */
#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUIET (2 * NSEC_PER_MSEC)

/* ---- idle time ------------------------------------------------------------------------------- */

static nsec quiet_part(const struct tenant *tenant, nsec since, nsec until)
{
        nsec sign = tenant->device->launched_at, looked_at = tenant->device->looked_at;
        nsec from = (sign > since ? sign : since) + QUIET;

        if (!tenant->device->can_watch || tenant->device->n_pending)
                return 0;
        until = until < looked_at ? until : looked_at; /* what was not looked at is taken for work */
        return until > from ? until - from : 0;
}

/* `late`: it cannot wait for the next look. */
static void judge_trim(struct tenant *tenant, bool is_late)
{
        if (!tenant->trim || !tenant->came_at || (!is_late && tenant->device->looked_at <= tenant->came_at))
                return;
        if (tenant->device->launched_at != tenant->trim_sign)
                tenant->idle += tenant->trim;
        tenant->trim = 0;
}

static void bill(const struct pace *pace, struct tenant *tenant)
{
        nsec billed;

        judge_trim(tenant, false);
        billed = tenant->used - tenant->idle - tenant->trim;
        if (pace->is_taken && pace->resident == tenant)
                billed -= quiet_part(tenant, pace->taken_at, pace->state.metered_until);
        if (billed <= tenant->billed)
                return;
        tenant->billed = billed;
        tenant->device->used = billed;
}

/* ---- intervals ------------------------------------------------------------------------------- */

static struct tenant *by_keeper(const struct pace *pace, uint32_t pid)
{
        for (size_t i = 0; i < pace->n_tenants; i++)
                if ((uint32_t)pace->tenants[i]->board->keeper == pid)
                        return pace->tenants[i];
        return NULL;
}

static struct tenant *whose(const struct pace *pace, const struct meter_record *record)
{
        struct tenant *tenant = map_get(&pace->contexts, record->context);

        return tenant ? tenant : by_keeper(pace, record->pid);
}

static void close_interval(struct pace *pace, nsec at)
{
        struct tenant *tenant = pace->resident;
        struct trace_span span = {
                .from = pace->taken_at, .until = at, .tenant = tenant ? tenant->id : 0, .detail = pace->context
        };

        if (!pace->is_taken)
                return;
        if (tenant) {
                tenant->closed += at - pace->taken_at;
                judge_trim(tenant, true);
                tenant->trim = quiet_part(tenant, pace->taken_at, at);
                tenant->trim_sign = tenant->device->launched_at;
                tenant->came_at = 0;
        } else
                pace->state.foreign_used += at - pace->taken_at;
        pace->busy_used += at - pace->taken_at;
        pace->is_taken = false;
        pace->resident = NULL;
        trace_put(pace->trace, &span);
}

/* It came on: by itself, or because a kick had put it off and it had work after all. */
static void kick_heard(struct tenant *tenant, nsec at)
{
        bool is_answer = tenant->kicked_at && at >= tenant->kicked_at && at - tenant->kicked_at < KICK_ANSWER;

        if (!is_answer)
                tenant->kick_after = KICK_FIRST;
        else if (tenant->kick_after < KICK_LAST)
                tenant->kick_after *= 2;
}

static void open_interval(struct pace *pace, const struct meter_record *record)
{
        pace->is_taken = true;
        pace->resident = whose(pace, record);
        pace->context = record->context;
        pace->taken_at = record->at;
        pace->state.n_switches++;
        if (!pace->resident)
                return;
        pace->resident->started_at = pace->resident->came_at = record->at;
        pace->resident->n_turns++;
        kick_heard(pace->resident, record->at);
}

void tally_records(struct pace *pace, const struct meter_record *records, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (records[i].is_on || (pace->is_taken && pace->context == records[i].context))
                        close_interval(pace, records[i].at);
                if (records[i].is_on)
                        open_interval(pace, &records[i]);
        }
}

/* An open interval counts, but a reading before it does not take back what an earlier one said. */
void tally_until(struct pace *pace, nsec until)
{
        struct tenant *resident = pace->resident;

        if (pace->is_taken && until < pace->taken_at)
                until = pace->taken_at;
        if (until > pace->state.metered_until)
                pace->state.metered_until = until;
        for (size_t i = 0; i < pace->n_tenants; i++) {
                struct tenant *tenant = pace->tenants[i];
                nsec used = tenant->closed;

                if (tenant == resident && pace->state.metered_until > pace->taken_at)
                        used += pace->state.metered_until - pace->taken_at;
                tenant->used = used > tenant->used ? used : tenant->used;
                bill(pace, tenant);
        }
}

/* ---- boards ---------------------------------------------------------------------------------- */

void tally_forget(struct pace *pace, struct tenant *tenant)
{
        for (size_t i = 0; i < tenant->channels.n_contexts; i++)
                if (map_get(&pace->contexts, tenant->channels.contexts[i]) == tenant)
                        (void)map_take(&pace->contexts, tenant->channels.contexts[i]);
        tenant->channels.n_contexts = 0;
}

/* The first channel of the group: rows come in no order. */
static bool is_first(const struct board_channel *rows, size_t n, const struct board_channel *row)
{
        for (size_t i = 0; i < n; i++)
                if (rows[i].client == row->client && rows[i].group == row->group && rows[i].order < row->order)
                        return false;
        return true;
}

/* A context's number may have been another tenant's before. */
static void learn_context(struct pace *pace, struct tenant *tenant, uint32_t context)
{
        if (tenant->channels.n_contexts == PACE_CONTEXTS)
                return;
        (void)map_take(&pace->contexts, context);
        if (map_put(&pace->contexts, context, tenant) < 0)
                return;
        tenant->channels.contexts[tenant->channels.n_contexts++] = context;
        if (pace->is_taken && !pace->resident && pace->context == context)
                pace->resident = tenant; /* its switch was seen before its channel */
}

static void learn(struct pace *pace, struct tenant *tenant, const struct board_channel *rows, size_t n)
{
        struct gpu_channel *channels = realloc(tenant->channels.compute, (n ? n : 1) * sizeof(*channels));

        if (!channels)
                return; /* as it was, and again at the next look */
        tenant->channels.compute = channels;
        tenant->channels.n_compute = 0;
        tally_forget(pace, tenant);
        for (size_t i = 0; i < n; i++) {
                if (!rows[i].is_compute || rows[i].device != pace->state.device)
                        continue;
                channels[tenant->channels.n_compute++] = (struct gpu_channel){ rows[i].client, rows[i].handle };
                if (is_first(rows, n, &rows[i]))
                        learn_context(pace, tenant, rows[i].cid);
        }
}

void tally_channels(struct pace *pace, struct tenant *tenant)
{
        uint32_t sequence = tenant->board->sequence;
        size_t n;

        if ((tenant->channels.is_known && sequence == tenant->channels.sequence) || sequence & 1)
                return;
        n = board_channels(tenant->board, pace->rows, &sequence);
        if (sequence & 1)
                return; /* its keeper is in the middle of a change, or died there */
        learn(pace, tenant, pace->rows, n);
        tenant->channels.sequence = sequence;
        tenant->channels.is_known = true;
}

/* ---- the past second ------------------------------------------------------------------------- */

void tally_second(struct pace *pace, nsec now)
{
        size_t at = pace->n_ticks % PACE_TICKS;

        if (now - pace->ticked_at < PACE_TICK)
                return;
        pace->ticked_at = now;
        pace->ticks[at] = pace->state.metered_until;
        pace->foreign_at[at] = pace->state.foreign_used;
        pace->busy_at[at] = pace->busy_used;
        if (pace->is_taken && pace->state.metered_until > pace->taken_at)
                pace->busy_at[at] += pace->state.metered_until - pace->taken_at;
        for (size_t i = 0; i < pace->n_tenants; i++) {
                pace->tenants[i]->billed_at[at] = pace->tenants[i]->billed;
                pace->tenants[i]->owed_at[at] = pace->tenants[i]->owed;
        }
        pace->n_ticks++;
}

static permille part(nsec some, nsec all)
{
        if (all <= 0 || some <= 0)
                return 0;
        return some >= all ? TURNS_WHOLE : (permille)((some * TURNS_WHOLE + all / 2) / all);
}

void tally_rates(const struct pace *pace, const struct tenant *tenant, struct pace_row *ret)
{
        size_t last = (pace->n_ticks + PACE_TICKS - 1) % PACE_TICKS;
        size_t first = pace->n_ticks < PACE_TICKS ? 0 : pace->n_ticks % PACE_TICKS;
        nsec span = pace->n_ticks ? pace->ticks[last] - pace->ticks[first] : 0;

        ret->granted = part(tenant->billed_at[last] - tenant->billed_at[first], span);
        ret->promised = part(tenant->owed_at[last] - tenant->owed_at[first], span);
}

void tally_device(const struct pace *pace, struct pace_device *ret)
{
        size_t last = (pace->n_ticks + PACE_TICKS - 1) % PACE_TICKS;
        size_t first = pace->n_ticks < PACE_TICKS ? 0 : pace->n_ticks % PACE_TICKS;
        nsec span = pace->n_ticks ? pace->ticks[last] - pace->ticks[first] : 0;

        ret->busy = part(pace->busy_at[last] - pace->busy_at[first], span);
        ret->foreign = part(pace->foreign_at[last] - pace->foreign_at[first], span);
}
