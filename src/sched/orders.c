/*
 * Orders, carried out. First everybody who is to come on, then everybody who is to go: so the device never idles in
 * between, and the sum is two points better at 20 ms windows (docs/time.md). Each half is one call for all its tenants,
 * as long as their channels fit; the board says it before the call is made (board.h: who comes second sees the first).
 */
#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>

#define RETRY (100 * NSEC_PER_MSEC) /* after a call that failed */

/* ---- a call ---------------------------------------------------------------------------------- */

/* 0; -ENODEV; -EIO. */
static int make_call(struct pace *pace, const struct gpu_channel *list, size_t n, bool is_off, uint64_t tenant,
                     uint32_t *ret_status)
{
        struct trace_span span = { .kind = TRACE_CALL,
                                   .tenant = tenant,
                                   .detail = is_off ? TRACE_CALL_KEEP_OFF : TRACE_CALL_LET_ON };
        int r;

        if (!n)
                return 0;
        span.from = clock_now();
        r = gpu_channels_set(pace->client, list, n, is_off, ret_status);
        span.until = clock_now();
        trace_put(pace->trace, &span);
        {
                LOCKED(&pace->lock);
                pace->state.n_calls++;
                pace->state.n_failed += r < 0;
                pace->state.calls_time += span.until - span.from;
        }
        return r;
}

static bool list_add(struct pace *pace, size_t n, const struct gpu_channel *channels, size_t n_more)
{
        if (n + n_more > pace->list_room) {
                size_t room = 2 * (n + n_more);
                struct gpu_channel *list = realloc(pace->list, room * sizeof(*list));

                if (!list)
                        return false;
                pace->list = list;
                pace->list_room = room;
        }
        for (size_t i = 0; i < n_more; i++)
                pace->list[n + i] = channels[i];
        return true;
}

/* ---- what a call has done -------------------------------------------------------------------- */

static void succeeded(struct pace *pace, struct tenant *tenant, bool is_off, nsec at)
{
        if (tenant->is_off && !is_off && tenant->off_since) {
                struct trace_span span = {
                        .from = tenant->off_since, .until = at, .tenant = tenant->id, .kind = TRACE_OFF
                };

                trace_put(pace->trace, &span);
        }
        tenant->off_since = is_off ? at : 0;
        tenant->is_off = is_off;
        if (tenant->has_failed)
                pace_say(pace, PACE_SWITCHED, tenant->id, 0);
        tenant->has_failed = false;
}

static void failed(struct pace *pace, struct tenant *tenant, nsec at, uint32_t status)
{
        if (!tenant->has_failed)
                pace_say(pace, PACE_NOT_SWITCHED, tenant->id, status);
        tenant->has_failed = true;
        tenant->retry_at = at + RETRY;
}

/* Of those in the call the one that has not been tried alone yet; NULL: none. Its channels are in pace->list. */
static struct tenant *take_one(struct pace *pace, size_t *ret_n)
{
        for (size_t i = 0; i < pace->n_tenants; i++) {
                struct tenant *tenant = pace->tenants[i];

                if (!tenant->is_in_call)
                        continue;
                tenant->is_in_call = false;
                *ret_n = list_add(pace, 0, tenant->channels.compute, tenant->channels.n_compute) ?
                                 tenant->channels.n_compute :
                                 0;
                return tenant;
        }
        return NULL;
}

/* A call for several has failed: for whom? */
static int one_by_one(struct pace *pace, bool is_off)
{
        uint32_t status = 0;
        uint64_t id;
        size_t n;
        int r = 0;

        for (;;) {
                {
                        LOCKED(&pace->lock);
                        struct tenant *tenant = take_one(pace, &n);

                        if (!tenant)
                                return r;
                        id = tenant->id;
                }
                r = make_call(pace, pace->list, n, is_off, id, &status);
                if (r == -ENODEV)
                        return r;
                {
                        LOCKED(&pace->lock);
                        struct tenant *tenant = pace_find(pace, id);

                        if (tenant && r < 0)
                                failed(pace, tenant, clock_now(), status);
                        else if (tenant)
                                succeeded(pace, tenant, is_off, clock_now());
                }
        }
}

static void all_succeeded(struct pace *pace, bool is_off)
{
        LOCKED(&pace->lock);
        nsec now = clock_now();

        for (size_t i = 0; i < pace->n_tenants; i++) {
                if (!pace->tenants[i]->is_in_call)
                        continue;
                pace->tenants[i]->is_in_call = false;
                succeeded(pace, pace->tenants[i], is_off, now);
        }
}

/* ---- who is switched ------------------------------------------------------------------------- */

/* The board first, then its channels. */
static size_t enlist(struct pace *pace, size_t n, struct tenant *tenant, bool is_off)
{
        tenant->device->is_off = is_off;
        tally_channels(pace, tenant);
        if (!list_add(pace, n, tenant->channels.compute, tenant->channels.n_compute))
                return n; /* no memory: again at the next turn */
        tenant->is_in_call = true;
        return n + tenant->channels.n_compute;
}

/* Those who left while they were off. */
static size_t enlist_farewells(struct pace *pace, size_t n)
{
        while (pace->farewells) {
                struct farewell *farewell = pace->farewells;

                if (list_add(pace, n, farewell->channels, farewell->n))
                        n += farewell->n;
                pace->farewells = farewell->next;
                free(farewell);
        }
        return n;
}

static size_t enlist_all(struct pace *pace, bool is_off, nsec now)
{
        LOCKED(&pace->lock);
        size_t n = is_off ? 0 : enlist_farewells(pace, 0);

        for (size_t i = 0; i < pace->n_tenants; i++) {
                struct tenant *tenant = pace->tenants[i];

                if (tenant->order.is_off == is_off && tenant->is_off != is_off && now >= tenant->retry_at)
                        n = enlist(pace, n, tenant, is_off);
        }
        return n;
}

static bool switch_all(struct pace *pace, bool is_off, nsec now)
{
        size_t n = enlist_all(pace, is_off, now);
        uint32_t status = 0;
        int r = make_call(pace, pace->list, n, is_off, 0, &status);

        if (r == -EIO)
                r = one_by_one(pace, is_off);
        else if (!r)
                all_succeeded(pace, is_off);
        return r != -ENODEV;
}

/* ---- kicks ----------------------------------------------------------------------------------- */

static bool has_been_quiet(const struct tenant *tenant, nsec span, nsec now)
{
        if (!tenant->device->can_watch)
                return true; /* it cannot be told */
        return !tenant->device->n_pending && now - tenant->device->launched_at > span;
}

static bool anybody_is_off(const struct pace *pace)
{
        for (size_t i = 0; i < pace->n_tenants; i++)
                if (pace->tenants[i]->is_off)
                        return true;
        return false;
}

static struct tenant *whom_to_kick(const struct pace *pace, nsec now)
{
        struct tenant *tenant = pace->resident;

        if (!pace->meter || anybody_is_off(pace))
                return NULL;
        for (size_t i = 0; i < pace->n_tenants && !pace->is_taken; i++)
                if (pace->tenants[i]->must_kick)
                        return pace->tenants[i];
        if (!tenant || now - pace->taken_at < tenant->kick_after || now - tenant->kicked_at < tenant->kick_after)
                return NULL;
        return has_been_quiet(tenant, tenant->kick_after, now) ? tenant : NULL;
}

static bool kick(struct pace *pace, nsec now)
{
        uint32_t status;
        size_t n = 0;
        int r;

        {
                LOCKED(&pace->lock);
                struct tenant *tenant = whom_to_kick(pace, now);

                if (!tenant)
                        return true;
                tenant->kicked_at = tenant->must_kick ? 0 : now;
                tenant->must_kick = false;
                n = enlist(pace, 0, tenant, true);
                tenant->is_in_call = false;
                tenant->is_off = true; /* and its order says on */
                tenant->off_since = now;
        }
        r = make_call(pace, pace->list, n, true, 0, &status);
        return r != -ENODEV && switch_all(pace, false, now);
}

/* ---- a turn's worth -------------------------------------------------------------------------- */

static void tell_slices(struct pace *pace)
{
        LOCKED(&pace->lock);

        for (size_t i = 0; i < pace->n_tenants; i++) {
                struct tenant *tenant = pace->tenants[i];

                if (tenant->device->slice == tenant->order.slice)
                        continue;
                tenant->device->slice = tenant->order.slice;
                board_wish_tell(tenant->board);
        }
}

bool orders_apply(struct pace *pace, nsec now)
{
        tell_slices(pace);
        return switch_all(pace, false, now) && switch_all(pace, true, now) && kick(pace, now);
}

void orders_end(struct pace *pace)
{
        {
                LOCKED(&pace->lock);
                for (size_t i = 0; i < pace->n_tenants; i++) {
                        struct tenant *tenant = pace->tenants[i];

                        tenant->order = (struct turns_order){ 0 };
                        tenant->retry_at = 0;
                        tenant->device->is_off = 0;
                        tenant->device->slice = 0;
                        tenant->device->watch = 0;
                        board_wish_tell(tenant->board);
                }
        }
        if (!pace->state.is_lost)
                (void)switch_all(pace, false, clock_now());
}
