/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant that has work, that is enabled, and that the device does not serve: the device does nothing at all. Such
 * channels were seen on an H200 (engines.c) and, after the next daemon took over, on a machine with two H100
 * (docs/measured.md): the driver counts disables, and they had been disabled once more than enabled. Such a tenant is
 * kicked.
 *
 *      G1  Only while the device is idle, as the meter has it: a kick takes nobody's time.
 *      G2  Work may wait for something else, as for an event of another device, and rings may lie. So each kick that
 *          does not bring the tenant onto the device is followed by the next one after twice the time.
 *      G3  A kernel that was on the device when its tenant was disabled is in no ring any more. Where that may be so,
 *          since the daemon or the shim before has switched its channels, the tenant is kicked a few times in any case.
 *      G4  Each kick enables once more often than was disabled (gpu/control.h): so what nobody knew of goes, too.
 */
#include "sched/inside.h"

#define FIRST (250 * NSEC_PER_MSEC)
#define LONGEST (8 * NSEC_PER_SEC)
#define IN_ANY_CASE 4

static bool is_stalled(const struct sched *sched, const struct sched_entity *tenant)
{
        if (sched->is_occupied || tenant->is_disabled || tenant->order.is_disabled || !tenant->channels.n)
                return false;
        return tenant->stall.n_due || (tenant->device->can_watch && tenant->device->n_pending);
}

void stall_expect(struct sched_entity *tenant)
{
        tenant->stall = (struct stall){ .after = FIRST, .n_due = IN_ANY_CASE };
}

/* Of a team's server it is all of them. */
static nsec started_at(const struct sched_entity *tenant)
{
        nsec of_team = tenant->team ? tenant->team->started_at : 0;

        return of_team > tenant->started_at ? of_team : tenant->started_at;
}

bool stall_kick(const struct sched *sched, struct sched_entity *tenant, nsec now)
{
        struct stall *stall = &tenant->stall;

        if (!stall->after || (stall->since && started_at(tenant) > stall->since) ||
            (sched->is_occupied &&
             (sched->resident == tenant || (tenant->team && !sched->resident && sched->team == tenant->team))))
                *stall = (struct stall){ .after = FIRST };
        if (!is_stalled(sched, tenant)) {
                stall->since = 0;
                return false;
        }
        if (!stall->since)
                stall->since = now;
        if (now - stall->since < stall->after)
                return false;
        stall->since = now;
        stall->after = 2 * stall->after < LONGEST ? 2 * stall->after : LONGEST;
        stall->n_due -= stall->n_due > 0;
        tenant->is_doubted = true; /* G4 */
        return true;
}
