/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes, by time slices: a tenant with new work waits for the rest of another's slice.
 *
 *      normal   has slices of half a millisecond while it takes turns: the longest wait of an always-on entity;
 *      latency  is always-on while it is within its share, and the slices of all others are tiny meanwhile: it is
 *               served within a switch. Its own slice is long, so it is not interrupted;
 *      batch    always has a tiny slice: it yields to any always-on entity.
 *
 * The groups of one tenant (several processes) share its turn by its own slices: those of such a tenant are longer.
 * Slices change only with the tenants and their classes, not with turns: setting one costs a call per group.
 */
#include "turns/inside.h"

/* Of class latency, and within its share. */
static bool is_urgent(const struct turns_tenant *tenant, const struct entity *entity)
{
        return tenant->class == TURNS_LATENCY && !entity->is_time_sliced && entity->debt <= entity->allowance;
}

static bool has_urgent(const struct turns *turns, const struct turns_view *view)
{
        for (size_t i = 0; i < turns->n; i++)
                if (is_urgent(&view->tenants[i], &turns->entities[i]))
                        return true;
        return false;
}

static nsec own_slice(const struct entity *entity)
{
        if (entity->n_groups > 1)
                return SLICE_SHARED;
        if (entity->is_time_sliced && entity->has_step && entity->may_wait < INT64_MAX)
                return nsec_max(entity->step_slice, SLICE_TIME_SLICED); /* it drains sooner, and is not cut in two */
        if (entity->may_burst && entity->is_synchronous)
                return SLICE_ALWAYS_ON; /* it drains, too; pieces of half a millisecond lose a quarter to switches */
        return entity->is_time_sliced ? SLICE_TIME_SLICED : SLICE_ALWAYS_ON;
}

/* Two that yield would cut each other into pieces shorter than a switch; one alone cannot. */
static nsec tiny_slice(const struct turns *turns, const struct turns_view *view)
{
        size_t n_yielding = 0;
        bool has_time_sliced = false;

        for (size_t i = 0; i < turns->n; i++) {
                if (turns->entities[i].is_time_sliced)
                        has_time_sliced = true; /* one of them at a time is enabled */
                else if (!is_urgent(&view->tenants[i], &turns->entities[i]))
                        n_yielding++;
        }
        return n_yielding + has_time_sliced <= 1 ? SLICE_INSTANT : SLICE_TINY;
}

void class_set(const struct turns *turns, const struct turns_view *view, struct turns_order *orders)
{
        bool has_urgent_tenant = has_urgent(turns, view);
        nsec tiny = tiny_slice(turns, view);

        for (size_t i = 0; i < turns->n; i++) {
                if (is_urgent(&view->tenants[i], &turns->entities[i]))
                        orders[i].slice = SLICE_LATENCY;
                else if (has_urgent_tenant || view->tenants[i].class == TURNS_BATCH)
                        orders[i].slice = turns->entities[i].n_groups > 1 ? SLICE_SHARED_TINY : tiny;
                else if (turns->policy != TURNS_POLICY_SLICES)
                        orders[i].slice = own_slice(&turns->entities[i]);
        }
}
