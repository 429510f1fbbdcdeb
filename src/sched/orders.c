/*
 * Orders, carried out. First everybody who is to come on, then everybody who is to go: so the device never idles in
 * between, and the sum is two points better at 20 ms windows (docs/time.md). Each half is one call for all its tenants,
 * as long as their channels fit; the control block says it before the call is made (board.h: who comes second sees the first).
 */
#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>

#define RETRY (100 * NSEC_PER_MSEC) /* after a call that failed */

/* ---- a call ---------------------------------------------------------------------------------- */

/* 0; -ENODEV; -EIO. */
static int make_call(struct sched *sched, const struct gpu_channel *list, size_t n, bool is_off, uint64_t tenant,
                     uint32_t *ret_status)
{
        struct trace_span span = { .kind = TRACE_CALL,
                                   .tenant = tenant,
                                   .detail = is_off ? TRACE_CALL_KEEP_OFF : TRACE_CALL_LET_ON };
        int r;

        if (!n)
                return 0;
        span.from = clock_now();
        r = gpu_channels_set(sched->client, list, n, is_off, ret_status);
        span.until = clock_now();
        trace_put(sched->trace, &span);
        {
                LOCKED(&sched->lock);
                sched->state.n_calls++;
                sched->state.n_failed += r < 0;
                sched->state.calls_time += span.until - span.from;
        }
        return r;
}

static bool list_add(struct sched *sched, size_t n, const struct gpu_channel *channels, size_t n_more)
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

/* ---- what a call has done -------------------------------------------------------------------- */

static void succeeded(struct sched *sched, struct tenant *tenant, bool is_off, nsec at)
{
        if (tenant->is_off && !is_off && tenant->off_since) {
                struct trace_span span = {
                        .from = tenant->off_since, .until = at, .tenant = tenant->id, .kind = TRACE_OFF
                };

                trace_put(sched->trace, &span);
        }
        tenant->off_since = is_off ? at : 0;
        tenant->is_off = is_off;
        if (tenant->has_failed)
                sched_say(sched, SCHED_SWITCHED, tenant->id, 0);
        tenant->has_failed = false;
}

static void failed(struct sched *sched, struct tenant *tenant, nsec at, uint32_t status)
{
        if (!tenant->has_failed)
                sched_say(sched, SCHED_NOT_SWITCHED, tenant->id, status);
        tenant->has_failed = true;
        tenant->retry_at = at + RETRY;
}

/* Of those in the call the one that has not been tried alone yet; NULL: none. Its channels are in pace->list. */
static struct tenant *take_one(struct sched *sched, size_t *ret_n)
{
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct tenant *tenant = sched->tenants[i];

                if (!tenant->is_in_call)
                        continue;
                tenant->is_in_call = false;
                *ret_n = list_add(sched, 0, tenant->channels.compute, tenant->channels.n_compute) ?
                                 tenant->channels.n_compute :
                                 0;
                return tenant;
        }
        return NULL;
}

/* A call for several has failed: for whom? */
static int one_by_one(struct sched *sched, bool is_off)
{
        uint32_t status = 0;
        uint64_t id;
        size_t n;
        int r = 0;

        for (;;) {
                {
                        LOCKED(&sched->lock);
                        struct tenant *tenant = take_one(sched, &n);

                        if (!tenant)
                                return r;
                        id = tenant->id;
                }
                r = make_call(sched, sched->list, n, is_off, id, &status);
                if (r == -ENODEV)
                        return r;
                {
                        LOCKED(&sched->lock);
                        struct tenant *tenant = sched_find(sched, id);

                        if (tenant && r < 0)
                                failed(sched, tenant, clock_now(), status);
                        else if (tenant)
                                succeeded(sched, tenant, is_off, clock_now());
                }
        }
}

static void all_succeeded(struct sched *sched, bool is_off)
{
        LOCKED(&sched->lock);
        nsec now = clock_now();

        for (size_t i = 0; i < sched->n_tenants; i++) {
                if (!sched->tenants[i]->is_in_call)
                        continue;
                sched->tenants[i]->is_in_call = false;
                succeeded(sched, sched->tenants[i], is_off, now);
        }
}

/* ---- who is switched ------------------------------------------------------------------------- */

/* The control block first, then its channels. */
static size_t enlist(struct sched *sched, size_t n, struct tenant *tenant, bool is_off)
{
        tenant->device->is_off = is_off;
        tally_channels(sched, tenant);
        if (!list_add(sched, n, tenant->channels.compute, tenant->channels.n_compute))
                return n; /* no memory: again at the next turn */
        tenant->is_in_call = true;
        return n + tenant->channels.n_compute;
}

/* Those who left while they were off. */
static size_t enlist_farewells(struct sched *sched, size_t n)
{
        while (sched->farewells) {
                struct farewell *farewell = sched->farewells;

                if (list_add(sched, n, farewell->channels, farewell->n))
                        n += farewell->n;
                sched->farewells = farewell->next;
                free(farewell);
        }
        return n;
}

static size_t enlist_all(struct sched *sched, bool is_off, nsec now)
{
        LOCKED(&sched->lock);
        size_t n = is_off ? 0 : enlist_farewells(sched, 0);

        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct tenant *tenant = sched->tenants[i];

                if (tenant->order.is_off == is_off && tenant->is_off != is_off && now >= tenant->retry_at)
                        n = enlist(sched, n, tenant, is_off);
        }
        return n;
}

static bool switch_all(struct sched *sched, bool is_off, nsec now)
{
        size_t n = enlist_all(sched, is_off, now);
        uint32_t status = 0;
        int r = make_call(sched, sched->list, n, is_off, 0, &status);

        if (r == -EIO)
                r = one_by_one(sched, is_off);
        else if (!r)
                all_succeeded(sched, is_off);
        return r != -ENODEV;
}

/* ---- kicks ----------------------------------------------------------------------------------- */

static bool has_been_quiet(const struct tenant *tenant, nsec span, nsec now)
{
        if (!tenant->device->can_watch)
                return true; /* it cannot be told */
        return !tenant->device->n_pending && now - tenant->device->launched_at > span;
}

static bool anybody_is_off(const struct sched *sched)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->is_off)
                        return true;
        return false;
}

static struct tenant *whom_to_kick(const struct sched *sched, nsec now)
{
        struct tenant *tenant = sched->resident;

        if (!sched->meter || anybody_is_off(sched))
                return NULL;
        for (size_t i = 0; i < sched->n_tenants && !sched->is_taken; i++)
                if (sched->tenants[i]->must_kick)
                        return sched->tenants[i];
        if (!tenant || now - sched->taken_at < tenant->kick_after || now - tenant->kicked_at < tenant->kick_after)
                return NULL;
        return has_been_quiet(tenant, tenant->kick_after, now) ? tenant : NULL;
}

static bool kick(struct sched *sched, nsec now)
{
        uint32_t status;
        size_t n = 0;
        int r;

        {
                LOCKED(&sched->lock);
                struct tenant *tenant = whom_to_kick(sched, now);

                if (!tenant)
                        return true;
                tenant->kicked_at = tenant->must_kick ? 0 : now;
                tenant->must_kick = false;
                n = enlist(sched, 0, tenant, true);
                tenant->is_in_call = false;
                tenant->is_off = true; /* and its order says on */
                tenant->off_since = now;
        }
        r = make_call(sched, sched->list, n, true, 0, &status);
        return r != -ENODEV && switch_all(sched, false, now);
}

/* ---- a turn's worth -------------------------------------------------------------------------- */

static void tell_slices(struct sched *sched)
{
        LOCKED(&sched->lock);

        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct tenant *tenant = sched->tenants[i];

                if (tenant->device->slice == tenant->order.slice)
                        continue;
                tenant->device->slice = tenant->order.slice;
                control_block_notify(tenant->control);
        }
}

bool orders_apply(struct sched *sched, nsec now)
{
        tell_slices(sched);
        return switch_all(sched, false, now) && switch_all(sched, true, now) && kick(sched, now);
}

void orders_end(struct sched *sched)
{
        {
                LOCKED(&sched->lock);
                for (size_t i = 0; i < sched->n_tenants; i++) {
                        struct tenant *tenant = sched->tenants[i];

                        tenant->order = (struct turns_order){ 0 };
                        tenant->retry_at = 0;
                        tenant->device->is_off = 0;
                        tenant->device->slice = 0;
                        tenant->device->watch = 0;
                        control_block_notify(tenant->control);
                }
        }
        if (!sched->state.is_lost)
                (void)switch_all(sched, false, clock_now());
}
