/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of the device, and weights of time-sliced entities.
 *
 * A promised share counts as it is. A tenant without one gets an equal part of the rest (turns_equal_part), a team one
 * for each such mate. Shares that add up to more than the device are scaled down.
 *
 * The weights of time-sliced entities divide what always-on entities leave: by shares, but none above its cap; what a
 * cap leaves goes to the others. If all are capped, the sum is less than the whole.
 *
 * An entity of a gang has the same weight on all its devices, the least that one of them gives. Where it could have
 * more, that is like a cap. `fair` is what this device would give it; the gang's next weight is the least of those.
 */
#include "turns/inside.h"

static permille promised(const struct turns_tenant *tenant)
{
        return tenant->share < TURNS_WHOLE ? tenant->share : TURNS_WHOLE;
}

/* Of the equal parts of what is promised to nobody. */
static size_t equal_parts(const struct turns_tenant *tenant)
{
        return tenant->n_equal ? tenant->n_equal : !tenant->share;
}

static uint32_t cap_of(const struct turns_tenant *tenant)
{
        return tenant->cap < TURNS_WHOLE ? cap_rate(tenant) : PPM;
}

static uint32_t limit_of(const struct entity *entity, const struct turns_tenant *tenant)
{
        uint32_t cap = cap_of(tenant);

        return entity->gang_state != TURNS_GANG_NONE && entity->gang_weight < cap ? entity->gang_weight : cap;
}

static uint32_t scale(uint64_t value, uint64_t whole, uint64_t sum)
{
        return (uint32_t)(value * whole / sum);
}

uint32_t turns_equal_part(permille promised, size_t n)
{
        size_t part = promised < TURNS_WHOLE && n ? (TURNS_WHOLE - promised) * TURNS_PPM / n : 0;

        return part > TURNS_PPM ? (uint32_t)part : TURNS_PPM;
}

void shares_set(struct turns *turns, const struct turns_view *view)
{
        permille sum = 0;
        size_t n_equal = 0;
        uint64_t whole;
        uint32_t part;

        for (size_t i = 0; i < turns->n; i++) {
                sum += promised(&view->tenants[i]);
                n_equal += equal_parts(&view->tenants[i]);
        }
        part = turns_equal_part(sum, n_equal);
        whole = (uint64_t)sum * TURNS_PPM + n_equal * part;
        for (size_t i = 0; i < turns->n; i++) {
                const struct turns_tenant *tenant = &view->tenants[i];
                uint32_t share = promised(tenant) * TURNS_PPM + (uint32_t)equal_parts(tenant) * part;

                turns->entities[i].share = whole > PPM ? scale(share, PPM, whole) : share;
        }
}

/* Divides `left` by shares among time-sliced entities of weight 0. False: some parts were above the cap; those entities
 * now have their caps, and the rest must be divided again. */
static bool weights_divide(struct turns *turns, const struct turns_view *view, uint64_t *left)
{
        uint64_t sum = 0, whole = *left;
        bool is_done = true;

        for (size_t i = 0; i < turns->n; i++)
                if (turns->entities[i].is_time_sliced && !turns->entities[i].weight)
                        sum += turns->entities[i].share;
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];
                uint32_t cap = limit_of(entity, &view->tenants[i]);

                if (!entity->is_time_sliced || entity->weight || !sum || scale(entity->share, whole, sum) <= cap)
                        continue;
                entity->weight = cap ? cap : 1;
                entity->is_at_cap = true;
                *left -= cap < *left ? cap : *left;
                is_done = false;
        }
        if (!is_done)
                return false;
        for (size_t i = 0; i < turns->n && sum; i++)
                if (turns->entities[i].is_time_sliced && !turns->entities[i].weight)
                        turns->entities[i].weight = scale(turns->entities[i].share, whole, sum);
        return true;
}

/* What an entity of a gang would have if its gang did not limit it: its part of what is divided among those without a
 * limit, and of what it has now. */
static void weights_fair(struct turns *turns, const struct turns_view *view, uint64_t left)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < turns->n; i++)
                if (turns->entities[i].is_time_sliced && !turns->entities[i].is_at_cap)
                        sum += turns->entities[i].share;
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];
                bool is_in_sum = entity->is_time_sliced && !entity->is_at_cap;
                uint64_t whole = left + (entity->is_at_cap ? entity->weight : 0), cap = cap_of(&view->tenants[i]), fair;

                if (!entity->gang || !entity->share)
                        continue;
                fair = entity->share * whole / (sum + (is_in_sum ? 0 : entity->share));
                entity->fair = (uint32_t)(fair < cap ? fair : cap);
        }
}

void shares_weigh(struct turns *turns, const struct turns_view *view)
{
        uint64_t left = PPM;
        bool is_done = false;

        turns->n_time_sliced = 0;
        for (size_t i = 0; i < turns->n; i++) {
                turns->entities[i].weight = 0;
                turns->entities[i].is_at_cap = false;
                turns->n_time_sliced += turns->entities[i].is_time_sliced;
        }
        for (size_t i = 0; i <= turns->n && !is_done; i++)
                is_done = weights_divide(turns, view, &left);
        weights_fair(turns, view, left);
}
