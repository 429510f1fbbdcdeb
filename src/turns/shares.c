/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of the device, and weights of time-sliced entities.
 *
 * A promised share counts as it is. A tenant without one gets an equal part of the rest (turns_equal_part). Shares that
 * add up to more than the device are scaled down.
 *
 * The weights of time-sliced entities divide what always-on entities leave: by shares, but none above its cap; what a
 * cap leaves goes to the others. If all are capped, the sum is less than the whole.
 */
#include "turns/inside.h"

static permille promised(const struct turns_tenant *tenant)
{
        return tenant->share < TURNS_WHOLE ? tenant->share : TURNS_WHOLE;
}

static uint32_t cap_of(const struct turns_tenant *tenant)
{
        return tenant->cap < TURNS_WHOLE ? cap_rate(tenant) : PPM;
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
                n_equal += !view->tenants[i].share;
        }
        part = turns_equal_part(sum, n_equal);
        whole = (uint64_t)sum * TURNS_PPM + n_equal * part;
        for (size_t i = 0; i < turns->n; i++) {
                const struct turns_tenant *tenant = &view->tenants[i];
                uint32_t share = tenant->share ? promised(tenant) * TURNS_PPM : part;

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
                uint32_t cap = cap_of(&view->tenants[i]);

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
}
