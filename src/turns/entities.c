/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one view to the next: a tenant that was there keeps its entity's memory, a new one begins always-on, and one
 * that has left is forgotten. Views mostly keep their order, so each search begins behind the latest hit.
 */
#include "turns/inside.h"

static bool is_same(const struct turns *turns, const struct turns_view *view)
{
        if (turns->n != view->n_tenants)
                return false;
        for (size_t i = 0; i < turns->n; i++)
                if (turns->entities[i].id != view->tenants[i].id || turns->entities[i].gang != view->tenants[i].gang)
                        return false;
        return true;
}

static struct entity entity_new(const struct turns *turns, const struct turns_tenant *tenant)
{
        return (struct entity){
                .id = tenant->id,
                .gang = tenant->gang,
                .gang_weight = PPM,
                .counted = tenant->used,
                .used = tenant->used,
                .n_starts = tenant->n_starts,
                .started_at = tenant->started_at,
                .beside = tenant->used,
                .n_beside = tenant->n_starts,
                .is_new = true,
                .is_enabled = true,
                .n_groups = 1,
                .switched_at = turns->now,
        };
}

/* The index of an old entity; NOBODY. */
static int entity_find(const struct turns *turns, uint64_t id, size_t *hint)
{
        for (size_t k = 0; k < turns->n; k++) {
                size_t i = (*hint + k) % turns->n;

                if (turns->spare[i].id == id) {
                        *hint = i + 1;
                        return (int)i;
                }
        }
        return NOBODY;
}

/* Replaces the indexes of old entities; where[old] is the new index, or NOBODY. */
static void entities_renumber(struct turns *turns, const int *where)
{
        unsigned int n = 0;

        if (turns->probe.is_running &&
            (turns->holder == NOBODY || where[turns->holder] == NOBODY || where[turns->probe.next] == NOBODY))
                turns->probe.is_running = false;
        if (turns->probe.is_running)
                turns->probe.next = where[turns->probe.next];
        if (turns->holder != NOBODY)
                turns->holder = where[turns->holder];
        if (turns->latest != NOBODY)
                turns->latest = where[turns->latest];
        if (turns->given_by != NOBODY)
                turns->given_by = where[turns->given_by];
        for (unsigned int i = 0; i < turns->n_holds; i++)
                turns->holds[n++] = (struct hold){
                        .from = turns->holds[i].from,
                        .entity = turns->holds[i].entity == NOBODY ? NOBODY : where[turns->holds[i].entity],
                };
}

void entities_follow(struct turns *turns, const struct turns_view *view)
{
        int where[TURNS_TENANTS_MAX];
        size_t n = view->n_tenants < TURNS_TENANTS_MAX ? view->n_tenants : TURNS_TENANTS_MAX, hint = 0;

        if (is_same(turns, view))
                return;
        for (size_t i = 0; i < turns->n; i++) {
                turns->spare[i] = turns->entities[i];
                where[i] = NOBODY;
        }
        for (size_t i = 0; i < n; i++) {
                int old = entity_find(turns, view->tenants[i].id, &hint);

                turns->entities[i] = old == NOBODY ? entity_new(turns, &view->tenants[i]) : turns->spare[old];
                turns->entities[i].gang = view->tenants[i].gang;
                if (old != NOBODY)
                        where[old] = (int)i;
        }
        entities_renumber(turns, where);
        turns->n = n;
}
