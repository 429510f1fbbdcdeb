/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant's rings say is a claim: the tenant writes them, and one that writes GP_PUT without ringing the doorbell
 * looks as if work waited. The device knows better: it switches at once to a channel group with work, and never to one
 * without. So the meter is asked whether a claim is true.
 *
 *      L1  A claim is work that waits in the rings, or a launch since the entity was last on the device.
 *      L2  An entity that claims work, is enabled, and was not switched to for SWITCHED_TO_MAX and the slices of all
 *          that worked meanwhile, has none: its claim is contradicted. Breaks in the claim that are shorter than that
 *          do not matter.
 *          Of a holder a device that nobody is on says so sooner (VACANT): it would be on the device. The time of a
 *          call is left for it to be enabled by.
 *      L3  A contradicted claim counts as no work, until the device has switched to the entity. It is enabled
 *          meanwhile, unless others say no: so work that waited for a semaphore is taken on as soon as it is released.
 *      L4  While an entity is disabled nothing contradicts its claim.
 *
 * Time that an entity held the device for and had no work is never owed to it: account.c.
 */
#include "turns/inside.h"

#define VACANT 4                      /* times as much */
#define CALL NSEC_PER_MSEC            /* that enables it */
#define SEEN_LATE (3 * NSEC_PER_MSEC) /* a launch is seen so much later than it is made, at most */

/* Those that are disabled count, too: one that ends its step, or whose call has not come yet, is on the device. */
static bool is_busy(const struct entity *entity, const struct turns_tenant *tenant)
{
        return tenant->is_resident || entity->n_new_starts || entity->spent > 0;
}

static nsec longest_slices(const struct turns *turns, const struct entity *entity)
{
        nsec slice =
                turns->now - entity->sliced_at < SLICED ? nsec_max(entity->slice, entity->slice_before) : entity->slice;

        return (slice + SWITCH) * entity->n_groups;
}

/* L1 */
static bool does_claim(const struct turns *turns, const struct turns_tenant *tenant)
{
        nsec latest = nsec_max(tenant->started_at, tenant->stopped_at);

        if (tenant->work == TURNS_WORK_PENDING)
                return true;
        return tenant->work == TURNS_WORK_NONE && tenant->launched_at - SEEN_LATE > latest &&
               turns->now - tenant->launched_at < SWITCHED_TO_MAX;
}

static void claim_follow(const struct turns *turns, struct entity *entity, const struct turns_tenant *tenant)
{
        if (tenant->is_resident || entity->n_new_starts) {
                entity->claims_since = 0;
                entity->is_contradicted = false;
        } else if (does_claim(turns, tenant)) {
                if (!entity->claims_since) {
                        entity->claims_since = turns->now;
                        entity->denied_for = entity->held_back = 0;
                }
                entity->claimed_at = turns->now;
        } else if (entity->is_enabled && turns->now - entity->claimed_at > SWITCHED_TO_MAX)
                entity->claims_since = 0;
}

/* L2. In short rounds it takes some turns. */
static void claim_judge(struct turns *turns, struct entity *entity, nsec slices, const struct meter_span *span)
{
        bool is_holder = turns->holder != NOBODY && entity == &turns->entities[turns->holder];
        nsec since = nsec_max(nsec_max(entity->claims_since, entity->switched_at), span->from), left;
        nsec vacant = turns->metered_until - nsec_max(since, entity->switched_at + CALL);

        if (!entity->claims_since || !entity->is_enabled || entity->is_contradicted)
                return;
        entity->denied_for += nsec_max(turns->metered_until - since, 0);
        if (is_holder && !entity->is_at_cap && !turns->turn.was_blocked)
                entity->denied_for += (VACANT - 1) * nsec_max(nsec_min(vacant, span->vacant), 0);
        entity->held_back = nsec_max(entity->held_back, slices);
        left = SWITCHED_TO_MAX + entity->held_back - entity->denied_for;
        entity->is_contradicted = left <= 0;
        wake_at(turns, turns->now + nsec_max(left, NSEC_PER_MSEC));
}

void claims_look(struct turns *turns, const struct turns_view *view, const struct meter_span *span)
{
        nsec slices = 0;

        for (size_t i = 0; i < turns->n; i++)
                if (is_busy(&turns->entities[i], &view->tenants[i]))
                        slices += longest_slices(turns, &turns->entities[i]);
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];
                const struct turns_tenant *tenant = &view->tenants[i];
                nsec own = is_busy(entity, tenant) ? longest_slices(turns, entity) : 0;

                claim_follow(turns, entity, tenant);
                claim_judge(turns, entity, slices - own, span);
                entity->work =
                        entity->is_contradicted && tenant->work == TURNS_WORK_PENDING ? TURNS_WORK_NONE : tenant->work;
        }
}
