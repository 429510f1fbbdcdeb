/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call, in two steps. Looking: the entities follow the view, the accounts are brought up to now, caps block.
 * Deciding: entities of gangs obey, the policy chooses the holder among the others, classes choose slices, and the
 * orders state the result.
 */
#include "turns/inside.h"

#include "base/cleanup.h"

#include <errno.h>

#define CALL_PERIOD (20 * NSEC_PER_MSEC)    /* between two calls, at most */
#define CALL_SPACING (200 * NSEC_PER_USEC)  /* between two calls, at least */
#define SLICE_DRIVER (2 * NSEC_PER_MSEC)    /* the driver's own, about */
#define IDLE_CALL_PERIOD (NSEC_PER_SEC / 4) /* without tenants */

/* The longest that divides 100 ms: what longer turns win (2 % from 20 to 100 ms for deep queues, 5 % for synchronous
 * ones) helps all, and a tenant that waiting hurts is of class latency. The figures are in docs/time.md. */
#define PERIOD (100 * NSEC_PER_MSEC)
#define PERIOD_MIN (10 * NSEC_PER_MSEC)
#define PERIOD_MAX (10 * NSEC_PER_SEC)

/* Turns are the only policy that keeps shares for tenants of every kind, and the sum is best as soon as turns are
 * longer than 20 ms. */
#define POLICY TURNS_POLICY_TURNS

enum turns_policy turns_policy_in_force(const struct turns_settings *settings)
{
        return settings->policy == TURNS_POLICY_AUTO ? POLICY : settings->policy;
}

nsec turns_period(const struct turns_settings *settings)
{
        return settings->period ? nsec_min(nsec_max(settings->period, PERIOD_MIN), PERIOD_MAX) : PERIOD;
}

int turns_new(const struct turns_settings *settings, struct turns **ret)
{
        struct turns *turns = calloc(1, sizeof(*turns));

        if (!turns)
                return -ENOMEM;
        turns->settings = *settings;
        turns->policy = turns_policy_in_force(settings);
        turns->period = turns->round = turns_period(settings);
        turns->holder = turns->latest = turns->given_by = NOBODY;
        *ret = turns;
        return 0;
}

struct turns *turns_free(struct turns *turns)
{
        free(turns);
        return NULL;
}

static void policy_apply(struct turns *turns, const struct turns_view *view)
{
        switch (turns->policy) {
        case TURNS_POLICY_TURNS:
                demand_join(turns, view);
                shares_weigh(turns, view);
                round_robin_next(turns, view);
                break;
        case TURNS_POLICY_STRICT:
                strict_next(turns);
                break;
        default:
                break;
        }
}

static bool may_run(const struct turns *turns, size_t i)
{
        const struct entity *entity = &turns->entities[i];

        if (entity->is_blocked || entity->gang_state == TURNS_GANG_OFF)
                return false;
        if (entity->gang_state != TURNS_GANG_NONE)
                return true;
        return !entity->is_time_sliced || (int)i == turns->holder ||
               (turns->probe.is_running && (int)i == turns->probe.next);
}

static void orders_write(struct turns *turns, const struct turns_view *view, struct turns_order *ret)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];
                bool is_enabled = may_run(turns, i);

                if (is_enabled != entity->is_enabled)
                        entity->switched_at = turns->now;
                entity->is_enabled = is_enabled;
                if (is_enabled)
                        wake_at(turns, entity->stops_at);
                entity->is_new = false;
                ret[i] = (struct turns_order){ .is_disabled = !is_enabled,
                                               .is_gentle = !is_enabled && steps_is_gentle(turns, entity),
                                               .slice = SLICE_OWN };
        }
        if (turns->policy == TURNS_POLICY_SLICES)
                slices_set(turns, ret);
        if (turns->policy != TURNS_POLICY_NONE)
                class_set(turns, view, ret);
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];
                nsec slice = ret[i].slice ? ret[i].slice : SLICE_DRIVER;

                if (slice != entity->slice)
                        entity->sliced_at = turns->now, entity->slice_before = entity->slice;
                entity->slice = slice;
        }
}

static void entities_look(struct turns *turns, const struct turns_view *view)
{
        turns->now = nsec_max(view->now, turns->now);
        turns->wake_at = turns->now + (view->n_tenants ? CALL_PERIOD : IDLE_CALL_PERIOD);
        entities_follow(turns, view);
        if (!turns->before)
                turns->before = turns->now;
        shares_set(turns, view);
        demand_allow(turns, view);
        account_update(turns, view);
        cap_update(turns, view);
        steps_look(turns, view);
}

void turns_look(struct turns *turns, const struct turns_view *view, struct turns_sign *ret_signs)
{
        entities_look(turns, view);
        shares_weigh(turns, view);
        ranks_look(turns, view, ret_signs);
}

nsec turns_decide(struct turns *turns, const struct turns_view *view, const struct turns_gang_order *gangs,
                  struct turns_order *ret_orders)
{
        ranks_obey(turns, view, gangs);
        policy_apply(turns, view);
        orders_write(turns, view, ret_orders);
        turns->before = turns->now;
        return nsec_max(turns->wake_at, turns->now + CALL_SPACING);
}

enum turns_work turns_work(const struct turns *turns, size_t i)
{
        return i < turns->n ? turns->entities[i].work : TURNS_WORK_UNKNOWN;
}

nsec turns_next(struct turns *turns, const struct turns_view *view, struct turns_order *ret_orders)
{
        entities_look(turns, view);
        return turns_decide(turns, view, NULL, ret_orders);
}
