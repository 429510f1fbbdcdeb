/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entities of gangs on this device. gangs.c decides for all devices; here is what it asks of one, and how the device
 * follows.
 *
 *      M1  An entity of a gang does not take turns here (takes_turns_here): its gang says when it is on.
 *      M2  While a gang has the device, no other takes turns on it. Always-on entities stay on, as beside any holder.
 *      M3  An entity that is alone in its gang is like any other.
 */
#include "turns/inside.h"

/* ---- looking --------------------------------------------------------------------------------- */

static struct turns_sign sign_of(const struct turns *turns, const struct turns_view *view, size_t i)
{
        const struct entity *entity = &turns->entities[i];
        const struct turns_tenant *tenant = &view->tenants[i];
        bool is_latency = tenant->class == TURNS_LATENCY;

        return (struct turns_sign){
                .is_rank = true,
                .wants_more = demand_wants_more(entity, is_latency),
                .is_satisfied = is_latency && !entity->debt,
                .is_blocked = entity->is_blocked,
                .is_capped = tenant->cap < TURNS_WHOLE,
                .is_patient = !is_latency && !tenant->goal,
                .is_resident = tenant->is_resident,
                .is_at_work = tenant->is_resident || entity->work == TURNS_WORK_PENDING,
                .debt = nsec_max(entity->debt, entity->burnt),
                .used = entity->used,
                .started_at = entity->started_at,
                .beside = demand_beside(turns, view, (int)i),
                .share = entity->share < entity->rate_max ? entity->share : entity->rate_max,
                .fair = entity->fair,
        };
}

void ranks_look(const struct turns *turns, const struct turns_view *view, struct turns_sign *ret)
{
        for (size_t i = 0; i < turns->n; i++)
                ret[i] = view->tenants[i].gang ? sign_of(turns, view, i) : (struct turns_sign){ 0 };
}

bool turns_rest(const struct turns *turns, nsec *ret_always_on)
{
        bool has_rest = false;

        for (size_t i = 0; i < turns->n; i++)
                has_rest |= takes_turns_here(&turns->entities[i]) && !turns->entities[i].is_blocked;
        *ret_always_on = turns->always_on_used;
        return has_rest;
}

/* ---- obeying --------------------------------------------------------------------------------- */

/* It took turns here until now. */
static void leave_turns(struct turns *turns, int entity)
{
        if (turns->probe.is_running && (turns->holder == entity || turns->probe.next == entity))
                turns->probe.is_running = false;
        if (turns->holder == entity)
                turns->holder = NOBODY;
        turns->entities[entity].has_turn = false;
        turns->entities[entity].owed = 0;
}

static void obey(struct turns *turns, int i, const struct turns_tenant *tenant, const struct turns_gang_order *order)
{
        struct entity *entity = &turns->entities[i];
        bool was_alone = entity->gang_state == TURNS_GANG_NONE;

        entity->gang_state = order->state;
        if (order->state == TURNS_GANG_NONE)
                return;
        if (was_alone)
                leave_turns(turns, i);
        if (order->is_time_sliced && (was_alone || !entity->is_time_sliced))
                demand_time_slice(entity, tenant->class == TURNS_LATENCY);
        else if (!order->is_time_sliced && entity->is_time_sliced)
                entity->debt = entity->saturated_for = 0;
        entity->is_time_sliced = order->is_time_sliced;
        entity->gang_weight = order->is_time_sliced ? order->weight : PPM;
        if (order->state == TURNS_GANG_FREE && (tenant->is_resident || entity->spent > 0))
                wake_at(turns, turns->now + nsec_max(entity->allowance - entity->debt, 2 * NSEC_PER_MSEC));
}

void ranks_obey(struct turns *turns, const struct turns_view *view, const struct turns_gang_order *orders)
{
        static const struct turns_gang_order none = { 0 };
        int n_on = 0, on = NOBODY;
        nsec until = turns->now;

        for (int i = 0; i < (int)turns->n; i++) {
                const struct turns_gang_order *order = orders ? &orders[i] : &none;

                obey(turns, i, &view->tenants[i], order);
                if (order->state != TURNS_GANG_ON || !order->has_device)
                        continue;
                n_on++;
                on = i;
                until = nsec_max(until, order->until);
        }
        turns->is_seized = n_on > 0;
        if (!turns->is_seized)
                return;
        round_robin_pause(turns, until);
        account_hold(turns, n_on == 1 ? on : NOBODY);
}
