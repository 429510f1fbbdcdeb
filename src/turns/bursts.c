/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bursts. Requests that come at random come in bursts, and a service that is within its share must not be taken off the
 * device for one. So an always-on entity whose launches can be seen (or that has a goal) is within its share until it
 * is shown not to be:
 *
 *      B1  It is charged for use and not for waiting: others' slices would make it look demanding.
 *      B2  It is charged while somebody wants what it uses: one that takes turns, or has wanted all it could get for
 *          BURST_MAX. The rest is lent. (An idle entity is on the device, too, until another comes: four services that
 *          computed for 15 % of the time each were metered 24.)
 *      B3  It wants all it can get when looks do not find it idle, for BURST_MAX, or for BURST_LONG when it is known to
 *          drain its queue. A look that finds it idle takes twice the time away again, so two looks in three must find
 *          it at work. Looks are LOOK apart meanwhile. One that has taken turns before is short of BURST_MAX.
 *      B4  Idle is: no work waits in its rings, seen after it left the device, and it left before its slice ended, or
 *          has not come back although others' slices would have let it. On the device: nothing launched for two steps.
 *          (Rings that were seen before it left said nothing of the launch that followed: two services in closed loops
 *          on an H200 were taken for idle for more than a second.)
 *
 * A look that is wrong about B4 delays B3. What then bounds the entity is B2, which asks the meter alone.
 */
#include "turns/inside.h"

#define LOOK (2 * NSEC_PER_MSEC)
#define CLOCKS (100 * NSEC_PER_USEC)        /* the records' and the host's differ by that */
#define BURST_OF_GOAL (200 * NSEC_PER_MSEC) /* of which the share is allowed */

void bursts_allow(struct turns *turns, struct entity *entity, const struct turns_tenant *tenant)
{
        entity->may_burst = turns->policy == TURNS_POLICY_TURNS && entity->gang_state == TURNS_GANG_NONE &&
                            (tenant->goal || (tenant->class == TURNS_NORMAL && tenant->work != TURNS_WORK_UNKNOWN));
        if (!entity->may_burst)
                return;
        if (tenant->goal)
                entity->allowance = nsec_max(part(BURST_OF_GOAL, entity->share), 2 * NSEC_PER_MSEC);
        else if (entity->is_synchronous)
                entity->allowance = nsec_max(part(turns->period, entity->share), 2 * NSEC_PER_MSEC);
}

nsec bursts_longest(const struct entity *entity)
{
        return entity->may_burst && (entity->has_goal || entity->is_synchronous) ? BURST_LONG : BURST_MAX;
}

/* ---- B4 -------------------------------------------------------------------------------------- */

void bursts_look(const struct turns *turns, struct entity *entity, const struct turns_tenant *tenant)
{
        if (!tenant->is_resident && tenant->stopped_at > tenant->started_at)
                entity->was_cut = tenant->stopped_at - tenant->started_at > steps_slice_in_force(turns, entity) / 4 * 3;
        if (entity->work != TURNS_WORK_NONE || tenant->is_resident)
                entity->quiet_at = 0;
        else if (!entity->quiet_at || entity->quiet_at < nsec_max(tenant->launched_at, tenant->started_at))
                entity->quiet_at = turns->now;
}

bool bursts_is_idle(const struct turns *turns, const struct turns_view *view, int i)
{
        const struct entity *entity = &turns->entities[i];
        const struct turns_tenant *tenant = &view->tenants[i];
        nsec latest = nsec_max(tenant->launched_at, tenant->started_at);

        if (entity->work != TURNS_WORK_NONE || turns->now - turns->metered_until > LATE)
                return false;
        if (entity->is_contradicted)
                return true;
        if (tenant->is_resident)
                return entity->has_step && !entity->was_cut &&
                       turns->now - latest > 4 * entity->half_step + 2 * NSEC_PER_MSEC;
        if (!entity->quiet_at || tenant->watched_at < tenant->stopped_at + CLOCKS)
                return false;
        if (tenant->launched_at > tenant->stopped_at && tenant->watched_at > turns->metered_until &&
            entity->quiet_at > turns->metered_until)
                return false; /* it may be on the device since */
        return !entity->was_cut || turns->now - entity->quiet_at >= demand_beside(turns, view, i) + NSEC_PER_MSEC;
}

/* ---- B1 to B3 -------------------------------------------------------------------------------- */

static bool others_want(const struct turns *turns, int entity)
{
        for (int i = 0; i < (int)turns->n; i++)
                if (i != entity && (turns->entities[i].is_time_sliced || turns->entities[i].saturated_for > BURST_MAX))
                        return true;
        return false;
}

void bursts_charge(struct turns *turns, const struct turns_view *view, int i, nsec spent_by_all, nsec waited)
{
        struct entity *entity = &turns->entities[i];
        nsec passed = turns->now - turns->before, due = part(passed, entity->share), spent = entity->spent;
        bool is_known = view->tenants[i].work != TURNS_WORK_UNKNOWN;
        bool is_idle = is_known ? bursts_is_idle(turns, view, i) : spent + waited < passed / 2;

        if (entity->is_time_sliced)
                entity->saturated_for = 0;
        else if (is_idle)
                entity->saturated_for = nsec_max(entity->saturated_for - 2 * passed, 0);
        else if (spent_by_all > spent) {
                bool is_deep = !entity->is_synchronous && entity->work == TURNS_WORK_PENDING &&
                               spent + waited > passed / 10 * 9;

                entity->saturated_for += is_deep ? passed : nsec_min(passed, 2 * LOOK);
                wake_at(turns, turns->now + LOOK);
        }
        if (!others_want(turns, i))
                spent = nsec_min(spent, due);
        entity->debt = nsec_min(nsec_max(entity->debt + spent - due, 0), 2 * entity->allowance);
}
