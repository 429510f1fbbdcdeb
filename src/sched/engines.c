/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on the fixed-function engines: copy, decoder, encoder, JPEG, optical flow. Each engine of a device is shared by
 * itself (turns/engines.h): a tenant that has used its share of the decoders still copies.
 *
 *      E1  a tenant that is off the device is off on all of its engines (orders.c); one whose turn on an engine is over
 *          is off on that one only;
 *      E2  there is no context-switch log for these engines. A tenant is on one while its rings hold work that the
 *          engine has not taken (gate/demand.c), and the time is divided by those that are on it at once: an engine may
 *          be several units, and which of them works for whom nobody says;
 *      E3  a ring that cannot be read counts as work. One that the tenant writes lies about is not found out:
 *          docs/threat-model.md.
 *
 * Measured, one H200, 580.159.04 (tests/gpu/engines.sh, docs/time.md): channels of one engine that are enabled while
 * others of its run list work, and those are disabled afterwards, stay without service although they are enabled, for
 * a second and for up to thirty; probably because they had been disabled twice, off the device and off the engine,
 * which the driver counts (gpu/control.c) and nobody knew then. So here, unlike in orders.c, the order is off, then on;
 * what a tenant has in use on engines is enabled here too when the tenant comes onto the device; and who has work, and
 * is not served, is enabled again (a nudge).
 *
 * A channel that comes while its engine is off for its tenant is switched off in the next pass, and only that one: the
 * driver counts how often each was.
 */
#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>

#define QUIET NSEC_PER_SEC           /* nobody has had work for so long: the policy is not asked */
#define RETRY (100 * NSEC_PER_MSEC)  /* after a call that failed */
#define GRACE (8 * NSEC_PER_MSEC)    /* after a launch: the next one comes, or not */
#define NUDGE (10 * NSEC_PER_MSEC)   /* with work and without a launch for so long */
#define LONGEST (20 * NSEC_PER_MSEC) /* between two looks; a longer gap, when the thread slept, counts as this */

/* ---- the trace ---------------------------------------------------------------------------------- */

static void span_end(const struct sched *sched, struct sched_engine *at, nsec until)
{
        at->span.until = until;
        if (at->span.from && at->span.until > at->span.from)
                trace_put(sched->trace, &at->span);
        at->span.from = 0;
}

/* As exact as the meter: what a look saw is so until the next one. */
static void span_note(const struct sched *sched, const struct sched_entity *tenant, enum rm_engine engine,
                      struct sched_engine *at, nsec now)
{
        uint32_t kind = at->is_on ? TRACE_ENGINE_ON : TRACE_ENGINE_OFF;

        if (at->span.from && at->wants && at->span.kind == kind)
                return;
        span_end(sched, at, now);
        if (at->wants)
                at->span = (struct trace_span){ .from = now, .tenant = tenant->id, .kind = kind, .detail = engine };
}

size_t engines_open(const struct sched_entity *tenant, struct trace_span spans[static RM_N_ENGINES])
{
        size_t n = 0;

        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                if (tenant->engines[engine].span.from)
                        spans[n++] = tenant->engines[engine].span;
        return n;
}

/* ---- beginning and end ---------------------------------------------------------------------------- */

int engines_new(struct sched *sched)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                if (engine_turns_new(&sched->settings.turns, &sched->engine_turns[engine]) < 0)
                        return -ENOMEM;
        return 0;
}

void engines_done(struct sched_entity *tenant)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                free(tenant->engines[engine].off);
}

void engines_free(struct sched *sched)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                sched->engine_turns[engine] = engine_turns_free(sched->engine_turns[engine]);
}

void engines_adopt(const struct sched *sched, struct sched_entity *tenant)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                const struct control_engine *on = control_block_engine(tenant->control, sched->state.device, engine);
                struct sched_engine *at = &tenant->engines[engine];

                at->used = on ? on->used : 0;
                at->is_disabled = on && on->is_disabled;
                for (size_t i = 0; i < SCHED_TICKS; i++)
                        at->used_at[i] = at->used;
        }
}

void engines_release(const struct sched *sched, struct sched_entity *tenant)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                struct control_engine *on = control_block_engine(tenant->control, sched->state.device, engine);

                span_end(sched, &tenant->engines[engine], sched->engines_seen_at);
                tenant->engines[engine].is_to_be_off = false;
                tenant->engines[engine].retry_at = 0;
                if (on)
                        on->is_disabled = 0;
        }
}

static int compare_orders(const void *a, const void *b)
{
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return x < y ? -1 : x > y;
}

/* Notes which are off from now on: without memory none, and those are disabled once more at the next change. */
static void note_off(struct sched_engine *at, const struct sched_channels *channels, enum rm_engine engine)
{
        uint32_t *off = realloc(at->off, (channels->n_of[engine] + 1) * sizeof(*off));

        at->n_off = 0;
        if (!off)
                return;
        at->off = off;
        for (size_t i = 0; i < channels->n; i++)
                if (channels->engines[i] == engine)
                        off[at->n_off++] = channels->orders[i];
        qsort(off, at->n_off, sizeof(*off), compare_orders);
}

static bool has_order(const struct sched_engine *at, uint32_t order)
{
        return at->n_off && bsearch(&order, at->off, at->n_off, sizeof(*at->off), compare_orders);
}

void engines_note_off(const struct sched *sched, struct sched_entity *tenant, nsec now)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                struct control_engine *on = control_block_engine(tenant->control, sched->state.device, engine);

                if (!on || now - tenant->engines[engine].wanted_at > QUIET)
                        continue;
                if (!tenant->engines[engine].is_disabled)
                        tenant->engines[engine].n_off = 0;
                tenant->engines[engine].is_disabled = true;
                on->is_disabled = 1;
        }
}

void engines_note_all_off(struct sched_entity *tenant)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                if (tenant->engines[engine].is_disabled)
                        note_off(&tenant->engines[engine], &tenant->channels, engine);
}

bool engines_has_off(const struct sched_entity *tenant, size_t channel)
{
        const struct sched_engine *at = &tenant->engines[tenant->channels.engines[channel]];

        return tenant->channels.engines[channel] && at->is_disabled && has_order(at, tenant->channels.orders[channel]);
}

void engines_note_enabled(struct sched_entity *tenant)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                tenant->engines[engine].is_disabled = false;
                tenant->engines[engine].n_off = 0;
        }
}

bool engines_are_off(const struct sched_entity *tenant)
{
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                if (tenant->engines[engine].is_disabled)
                        return true;
        return false;
}

/* ---- what is seen ---------------------------------------------------------------------------- */

static void see(const struct sched *sched, struct sched_entity *tenant, enum rm_engine engine, nsec now)
{
        const struct control_engine *on = control_block_engine(tenant->control, sched->state.device, engine);
        struct sched_engine *at = &tenant->engines[engine];

        at->wants = on && tenant->channels.n_of[engine] && !tenant->is_disabled && !tenant->order.is_disabled &&
                    (on->n_pending || on->n_unseen || (on->launched_at && now - on->launched_at < GRACE));
        at->is_on = at->wants && !at->is_disabled;
        if (at->wants)
                at->wanted_at = now;
        span_note(sched, tenant, engine, at, now);
}

/* E2. What was on at the latest look has been on until now. */
static void meter(struct sched *sched, enum rm_engine engine, nsec span)
{
        nsec n_on = 0;

        for (size_t i = 0; i < sched->n_tenants; i++)
                n_on += sched->tenants[i]->engines[engine].is_on;
        for (size_t i = 0; i < sched->n_tenants && n_on; i++) {
                struct sched_entity *tenant = sched->tenants[i];
                struct control_engine *on = control_block_engine(tenant->control, sched->state.device, engine);

                if (!tenant->engines[engine].is_on)
                        continue;
                tenant->engines[engine].used += span / n_on;
                if (on)
                        on->used = tenant->engines[engine].used;
        }
        if (n_on)
                sched->engine_on_at[engine] = sched->engines_seen_at;
}

/* ---- decisions --------------------------------------------------------------------------------- */

static nsec decide(struct sched *sched, enum rm_engine engine, nsec now)
{
        struct engine_tenant *view = sched->engine_view;
        nsec until;
        size_t n = 0;

        for (size_t i = 0; i < sched->n_tenants; i++) {
                const struct sched_entity *tenant = sched->tenants[i];
                const struct sched_engine *at = &tenant->engines[engine];

                if (tenant->channels.n_of[engine])
                        view[n++] = (struct engine_tenant){ .id = tenant->id,
                                                            .share = tenant->share,
                                                            /* in a team it is of multiprocessors */
                                                            .cap = tenant->team ? TURNS_WHOLE : tenant->cap,
                                                            .wants = at->wants,
                                                            .used = at->used };
        }
        until = engine_turns_next(sched->engine_turns[engine], now, view, n, sched->engine_is_off);
        n = 0;
        for (size_t i = 0; i < sched->n_tenants; i++)
                sched->tenants[i]->engines[engine].is_to_be_off =
                        sched->tenants[i]->channels.n_of[engine] && sched->engine_is_off[n++];
        return until;
}

/* While nobody has work, all are enabled. */
static void let_all_on(struct sched *sched, enum rm_engine engine)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                sched->tenants[i]->engines[engine].is_to_be_off = false;
}

static bool is_quiet(const struct sched *sched, enum rm_engine engine, nsec now)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->engines[engine].wants)
                        return false;
        return now - sched->engine_on_at[engine] > QUIET;
}

nsec engines_decide(struct sched *sched, nsec now)
{
        nsec span = now - sched->engines_seen_at, until = INT64_MAX;

        span = span > LONGEST ? LONGEST : span;
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                nsec one;

                meter(sched, engine, span);
                for (size_t i = 0; i < sched->n_tenants; i++)
                        see(sched, sched->tenants[i], engine, now);
                if (is_quiet(sched, engine, now)) {
                        let_all_on(sched, engine);
                        continue;
                }
                one = decide(sched, engine, now);
                until = one < until ? one : until;
        }
        sched->engines_seen_at = now;
        return until;
}

/* ---- calls ------------------------------------------------------------------------------------- */

static bool must_nudge(const struct sched *sched, const struct sched_entity *tenant, enum rm_engine engine, nsec now)
{
        const struct control_engine *on = control_block_engine(tenant->control, sched->state.device, engine);
        const struct sched_engine *at = &tenant->engines[engine];

        return on && on->n_pending && at->wants && now - on->launched_at > NUDGE && now - at->enabled_at > NUDGE;
}

/* A tenant that is off the device altogether is so on its engines, and stays so until it is back. */
static bool must_switch(const struct sched *sched, const struct sched_entity *tenant, enum rm_engine engine,
                        bool is_disabled, nsec now)
{
        const struct sched_engine *at = &tenant->engines[engine];

        if (at->is_to_be_off != is_disabled || now < at->retry_at || !tenant->channels.n_of[engine])
                return false;
        if (is_disabled)
                return !at->is_disabled || at->sequence != tenant->channels.sequence;
        if (tenant->is_disabled || tenant->order.is_disabled)
                return false;
        return at->is_disabled || (at->enabled_at && must_nudge(sched, tenant, engine, now));
}

/* All of its channels, or those that have come since it was switched off. */
static size_t list_engine(struct sched *sched, size_t n, struct sched_entity *tenant, enum rm_engine engine,
                          bool is_disabled)
{
        const struct sched_channels *channels = &tenant->channels;
        struct sched_engine *at = &tenant->engines[engine];

        for (size_t i = 0; i < channels->n; i++) {
                if (channels->engines[i] != engine)
                        continue;
                if (has_order(at, channels->orders[i]))
                        continue;
                if (orders_list(sched, n, &channels->list[i], 1))
                        n++;
        }
        if (is_disabled)
                note_off(at, channels, engine);
        return n;
}

static size_t list_all(struct sched *sched, bool is_disabled, nsec now)
{
        LOCKED(&sched->lock);
        size_t n = 0;

        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                        struct control_engine *on;

                        if (!must_switch(sched, tenant, engine, is_disabled, now))
                                continue;
                        on = control_block_engine(tenant->control, sched->state.device, engine);
                        if (on)
                                on->is_disabled = is_disabled;
                        if (!is_disabled || !tenant->engines[engine].is_disabled)
                                tenant->engines[engine].n_off = 0;
                        tenant->engines[engine].is_disabled = is_disabled;
                        tenant->engines[engine].sequence = tenant->channels.sequence;
                        tenant->engines[engine].is_in_call = true;
                        tenant->engines[engine].enabled_at = is_disabled ? 0 : now;
                        if (!tenant->is_disabled)
                                n = list_engine(sched, n, tenant, engine, is_disabled);
                        else if (is_disabled) /* they are off already */
                                note_off(&tenant->engines[engine], &tenant->channels, engine);
                }
        }
        return n;
}

/* A call that failed is made again, and until then what it should have done counts as not done. */
static void settle(struct sched *sched, bool is_disabled, bool has_failed, uint32_t status)
{
        LOCKED(&sched->lock);

        for (size_t i = 0; i < sched->n_tenants; i++)
                for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                        struct sched_engine *at = &sched->tenants[i]->engines[engine];

                        if (!at->is_in_call)
                                continue;
                        at->is_in_call = false;
                        if (has_failed) {
                                at->n_off = 0;
                                at->is_disabled = !is_disabled;
                                at->retry_at = clock_now() + RETRY;
                                if (!at->has_failed)
                                        sched_event_put(sched, SCHED_NOT_SWITCHED, sched->tenants[i]->id, status);
                        }
                        at->has_failed = has_failed;
                }
}

static bool switch_engines(struct sched *sched, bool is_disabled, nsec now)
{
        uint32_t status = 0;
        size_t n = list_all(sched, is_disabled, now);
        int r = orders_call(sched, n, is_disabled, &status);

        settle(sched, is_disabled, r < 0, status);
        return r != -ENODEV;
}

bool engines_apply(struct sched *sched, nsec now)
{
        return switch_engines(sched, true, now) && switch_engines(sched, false, now);
}

/* ---- figures ------------------------------------------------------------------------------------- */

void engines_second(struct sched *sched, size_t tick)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                        sched->tenants[i]->engines[engine].used_at[tick] = sched->tenants[i]->engines[engine].used;
}
