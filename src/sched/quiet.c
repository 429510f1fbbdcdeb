/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant on the device need not work: a context that is alone stays. Where launches can be seen, time on the device
 * from QUIET after the latest sign of work is quiet, and idle.c says how much of it is forgiven. Nothing is forgiven
 *
 *      Q1  where launches cannot be seen, or a time was not checked;
 *      Q2  while another tenant has work that waits, and the meter does not contradict that, or is disabled: then the
 *          device switches in each pause by itself, and what the meter says is the truth;
 *      Q3  that was not confirmed by kicks, which ask the device and not the tenant.
 */
#include "sched/inside.h"

#include <stdlib.h>

#define QUIET (2 * NSEC_PER_MSEC)
#define ANSWER_MAX (20 * NSEC_PER_MSEC) /* nobody came back until then */

struct signs {
        nsec at;              /* the latest */
        uint32_t n;           /* stretches without one that have ended */
        nsec began_at, until; /* the latest of them */
};

/* False: not now. A shim of an earlier version tells launches only. */
static bool signs_read(const struct sched *sched, const struct sched_entity *tenant, struct signs *ret)
{
        struct control_quiet_seen seen = { 0 };
        bool is_known = control_block_quiet(tenant->control, sched->state.device, &seen);

        if (!tenant->device->can_watch || (!is_known && tenant->control->version > 2))
                return false;
        *ret = (struct signs){ .at = seen.signed_at ? seen.signed_at : tenant->device->launched_at,
                               .n = seen.n,
                               .began_at = seen.began_at,
                               .until = seen.until };
        return true;
}

/* Q2 */
static bool is_contended(const struct sched *sched, const struct sched_entity *tenant)
{
        for (size_t i = 0; i < sched->n_tenants; i++) {
                const struct sched_entity *other = sched->tenants[i];

                if (other == tenant)
                        continue;
                if (other->is_disabled && other->wants)
                        return true;
                if (other->device->can_watch && other->device->n_pending && !other->is_contradicted)
                        return true;
        }
        return false;
}

/* Quiet time is counted from the sign, or from when it came on the device with work that had waited. */
static nsec base_of(const struct sched *sched, const struct sched_entity *tenant, nsec sign)
{
        return tenant->quiet.is_answer || sign > sched->occupied_since ? sign : sched->occupied_since;
}

static void stretch_account(struct sched *sched, struct sched_entity *tenant, nsec sign, nsec until)
{
        nsec base = base_of(sched, tenant, sign), from = base + QUIET;

        from = from > sched->occupied_since ? from : sched->occupied_since;
        from = from > tenant->quiet.until ? from : tenant->quiet.until;
        if (until <= from)
                return;
        if (!is_contended(sched, tenant))
                idle_quiet(&tenant->quiet.idle, from - base, until - base);
        tenant->quiet.until = until;
}

void quiet_account(struct sched *sched, struct sched_entity *tenant, nsec until)
{
        nsec checked_at = tenant->device->checked_at;
        struct signs signs;

        if (!signs_read(sched, tenant, &signs))
                return;
        if (signs.n == tenant->quiet.n + 1) /* of several only the latest is known: the others are billed */
                stretch_account(sched, tenant, signs.began_at, signs.until < until ? signs.until : until);
        tenant->quiet.n = signs.n;
        if (!tenant->device->n_pending)
                stretch_account(sched, tenant, signs.at, checked_at < until ? checked_at : until);
}

/* ---- kicks ----------------------------------------------------------------------------------- */

void quiet_resumed(struct sched_entity *tenant, nsec at)
{
        struct quiet *quiet = &tenant->quiet;

        quiet->is_answer = quiet->idle.is_asked && !quiet->resumed_at && at >= tenant->kicked_at;
        if (quiet->is_answer)
                quiet->resumed_at = at;
}

static bool is_void(const struct sched *sched, const struct sched_entity *tenant)
{
        return tenant->is_disabled || tenant->order.is_disabled || !tenant->device->can_watch ||
               (sched->is_occupied && sched->resident != tenant) || is_contended(sched, tenant);
}

void quiet_settle(const struct sched *sched, struct sched_entity *tenant)
{
        struct quiet *quiet = &tenant->quiet;
        struct signs signs;

        if (!quiet->idle.is_asked)
                return;
        if (is_void(sched, tenant)) {
                idle_answer(&quiet->idle, IDLE_VOID);
                return;
        }
        if (!quiet->resumed_at) {
                if (sched->state.metered_until - tenant->kicked_at > ANSWER_MAX)
                        idle_answer(&quiet->idle, IDLE_NOBODY);
                return;
        }
        if (tenant->device->checked_at <= quiet->resumed_at || !signs_read(sched, tenant, &signs))
                return;
        if (signs.at == quiet->asked_sign && !tenant->device->n_pending)
                idle_answer(&quiet->idle, IDLE_WORK);
        else
                idle_answer(&quiet->idle,
                            quiet->resumed_at - tenant->kicked_at < KICK_ANSWER ? IDLE_UNSURE : IDLE_NOBODY);
}

bool quiet_kick(const struct sched *sched, struct sched_entity *tenant, nsec now)
{
        struct quiet *quiet = &tenant->quiet;
        nsec span = now - quiet->drawn_at, base;
        struct signs signs;

        quiet->drawn_at = now;
        if (tenant->device->n_pending || is_contended(sched, tenant) || !signs_read(sched, tenant, &signs))
                return false;
        base = base_of(sched, tenant, signs.at);
        if (signs.n != quiet->n || now - base < QUIET || !idle_draw(&quiet->idle, span, arc4random()))
                return false;
        idle_ask(&quiet->idle, now - base);
        quiet->asked_sign = signs.at;
        quiet->resumed_at = 0;
        return true;
}

/* Not in step with a tenant that works in steps: kicks would always find it in the same part of one. */
nsec quiet_next(const struct sched *sched, nsec now)
{
        const struct sched_entity *tenant = sched->resident;

        if (!sched->is_occupied || !tenant || !tenant->device->can_watch || tenant->device->n_pending ||
            is_contended(sched, tenant))
                return INT64_MAX;
        return now + QUIET_PASS / 2 + (nsec)arc4random_uniform((uint32_t)QUIET_PASS);
}
