/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caps: no tenant is metered more than its cap over any second, whatever else is decided.
 *
 *      C1  Time runs in cycles that divide a second, and each gives the tenant the cap's part of it. When that is used
 *          up, the tenant is disabled until the next cycle: alone on the device it runs in pulses. The turns of a
 *          time-sliced entity are of that length anyway.
 *      C2  A check of the last second makes it strict: a tenant that was late in one cycle and is early in the next
 *          could have a part too much in the second that begins between.
 *
 * Both assume the worst of time that is not metered yet, and leave MARGIN for calls that come late. Nothing is known of
 * the time before a tenant became an entity: it counts as unused.
 */
#include "turns/inside.h"

#include "base/cleanup.h"

#define SECOND NSEC_PER_SEC
#define MARGIN NSEC_PER_MSEC          /* of a second: use beyond what is predicted */
#define LEAD (700 * NSEC_PER_USEC)    /* from an order until the device has stopped (docs/time.md) */
#define PULSE_MIN (5 * NSEC_PER_MSEC) /* enabled, or disabled: a pulse costs 0.9 ms of calls */
#define POINT_SPACING (4500 * NSEC_PER_USEC)
#define BEND (50 * NSEC_PER_USEC)

/* ---- the last second ------------------------------------------------------------------------- */

static struct usage_point *usage_point_at(struct usage *usage, unsigned int i)
{
        return &usage->points[(usage->first + i) % N_SAMPLES];
}

/* Whether the curve bends at `b`: otherwise the tenant was off the device all the time, or on it all the time. */
static bool curve_bends(const struct usage_point *a, const struct usage_point *b, const struct usage_point *c)
{
        nsec before = b->used - a->used, after = c->used - b->used;
        bool was_off = before + after < BEND, was_on = c->at - a->at - before - after < BEND;

        return !was_off && !was_on;
}

/* Keeps bends only, and of many in a short time only some, so that N_SAMPLES hold a second. */
static void usage_put(struct usage *usage, nsec at, nsec used)
{
        struct usage_point new = { at, used };

        if (usage->n && at <= usage_point_at(usage, usage->n - 1)->at)
                return;
        if (usage->n > 1 &&
            (at - usage_point_at(usage, usage->n - 2)->at < POINT_SPACING ||
             !curve_bends(usage_point_at(usage, usage->n - 2), usage_point_at(usage, usage->n - 1), &new)))
                usage->n--;
        if (usage->n == N_SAMPLES) {
                usage->first = (usage->first + 1) % N_SAMPLES;
                usage->n--;
                usage->has_dropped = true;
        }
        *usage_point_at(usage, usage->n++) = new;
}

/* The least that it can have used until `at`: between two points, all use was just before the later. */
static nsec usage_at(struct usage *usage, nsec at)
{
        struct usage_point *first;

        while (usage->n > 1 && usage_point_at(usage, 1)->at <= at) {
                usage->first = (usage->first + 1) % N_SAMPLES;
                usage->n--;
                usage->has_dropped = false;
        }
        first = usage_point_at(usage, 0);
        if (at < first->at)
                return usage->has_dropped ? first->used - (first->at - at) : first->used;
        if (usage->n == 1)
                return first->used;
        return nsec_max(first->used, usage_point_at(usage, 1)->used - (usage_point_at(usage, 1)->at - at));
}

/* ---- cycles ---------------------------------------------------------------------------------- */

uint32_t cap_rate(const struct turns_tenant *tenant)
{
        uint32_t rate = tenant->cap * (PPM / TURNS_WHOLE), margin = 4 * PPM / 1000;

        return rate > 5 * margin ? rate - margin : rate / 5 * 4;
}

/* The period, or longer if that has too little for a pulse. */
static nsec cycle_of(const struct turns *turns, uint32_t rate)
{
        static const nsec longer[] = { 100 * NSEC_PER_MSEC, 200 * NSEC_PER_MSEC, 500 * NSEC_PER_MSEC };
        nsec cycle = turns->period;

        for (size_t i = 0; i < ARRAY_SIZE(longer); i++)
                if (part(cycle, rate) < PULSE_MIN)
                        cycle = nsec_max(cycle, longer[i]);
        return cycle;
}

static void tokens_refill(const struct turns *turns, struct entity *entity, uint32_t rate)
{
        nsec cycle = cycle_of(turns, rate), pulse = part(cycle, rate), n;

        if (entity->is_new) {
                entity->tokens = pulse;
                entity->cycle_at = turns->now;
                return;
        }
        n = (turns->now - entity->cycle_at) / cycle;
        entity->cycle_at += n * cycle;
        entity->tokens = nsec_min(entity->tokens - entity->spent + nsec_min(n, 10) * pulse, pulse + pulse / 10);
        entity->tokens = nsec_max(entity->tokens, -part(SECOND, rate));
}

/* The most that it can have used until now. */
static nsec used_at_most(const struct turns *turns, const struct entity *entity, const struct turns_tenant *tenant)
{
        nsec unseen = turns->now - turns->metered_until;

        if (!entity->is_enabled && entity->switched_at + LEAD < turns->metered_until)
                return entity->counted;
        if (!tenant->is_resident && unseen < LATE)
                return entity->counted;
        if (entity->is_enabled)
                unseen = nsec_min(unseen, turns->now - entity->switched_at);
        return entity->counted + unseen;
}

/* Then the round robin spreads the use: turns are no longer than the cap's part. */
static bool takes_turns(const struct turns *turns, const struct entity *entity)
{
        return entity->is_time_sliced && (turns->n_time_sliced > 1 || turns->policy == TURNS_POLICY_STRICT);
}

static void cap_limit(struct turns *turns, struct entity *entity, const struct turns_tenant *tenant)
{
        uint32_t rate = cap_rate(tenant);
        nsec second = part(SECOND, tenant->cap * (PPM / TURNS_WHOLE)) - MARGIN, left;

        tokens_refill(turns, entity, rate);
        usage_put(&entity->usage, turns->metered_until, entity->counted);
        second -= used_at_most(turns, entity, tenant) - usage_at(&entity->usage, turns->now - SECOND);
        left = takes_turns(turns, entity) ? second : nsec_min(entity->tokens, second);

        entity->is_blocked = left <= (entity->is_blocked ? 2 * LEAD : LEAD);
        entity->burnt = nsec_max(part(cycle_of(turns, rate), rate) - entity->tokens, 0);
        entity->stops_at = turns->now + left - LEAD;
        if (entity->is_blocked)
                wake_at(turns, entity->tokens > 2 * LEAD ? turns->now + NSEC_PER_MSEC :
                                                           entity->cycle_at + cycle_of(turns, rate));
}

void cap_update(struct turns *turns, const struct turns_view *view)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                entity->rate_max = view->tenants[i].cap < TURNS_WHOLE ? cap_rate(&view->tenants[i]) : PPM;
                if (!view->tenants[i].cap)
                        entity->is_blocked = true;
                else if (view->tenants[i].cap < TURNS_WHOLE)
                        cap_limit(turns, entity, &view->tenants[i]);
                else {
                        entity->is_blocked = false;
                        entity->stops_at = INT64_MAX;
                }
        }
}
