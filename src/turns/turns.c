/*
 * One call: the entities follow the view, the accounts are brought up to now, caps block, the policy decides who
 * holds the device, classes decide slices, and the orders say it all.
 */
#include "turns/inside.h"

#include "base/cleanup.h"

#include <errno.h>

#define CALL_PERIOD (20 * NSEC_PER_MSEC)    /* nothing may go unseen for longer */
#define CALL_SPACING (200 * NSEC_PER_USEC)  /* between two calls, at least */
#define SLICE_DRIVER (2 * NSEC_PER_MSEC)    /* the driver's own, about */
#define IDLE_CALL_PERIOD (NSEC_PER_SEC / 4) /* without tenants */

int turns_new(const struct turns_settings *settings, struct turns **ret)
{
        struct turns *turns = calloc(1, sizeof(*turns));

        if (!turns)
                return -ENOMEM;
        turns->settings = *settings;
        turns->holder = turns->latest = NOBODY;
        *ret = turns;
        return 0;
}

struct turns *turns_free(struct turns *turns)
{
        free(turns);
        return NULL;
}

void turns_set(struct turns *turns, const struct turns_settings *settings)
{
        turns->settings = *settings;
}

/* Another policy begins with everybody a always-on tenant, and what was owed under the one before is forgotten. */
static void policy_choose(struct turns *turns)
{
        enum turns_policy policy = auto_pick(turns);

        turns->period = auto_period(turns);
        if (policy == turns->policy)
                return;
        turns->policy = policy;
        turns->holder = turns->latest = NOBODY;
        turns->probe.is_on = false;
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                entity->is_time_sliced = entity->has_turn = false;
                entity->owed = entity->debt = 0;
        }
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

static bool is_on(const struct turns *turns, size_t i)
{
        const struct entity *entity = &turns->entities[i];

        if (entity->is_blocked)
                return false;
        return !entity->is_time_sliced || (int)i == turns->holder ||
               (turns->probe.is_on && (int)i == turns->probe.next);
}

static void orders_write(struct turns *turns, const struct turns_view *view, struct turns_order *ret)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];
                bool on = is_on(turns, i);

                if (on != entity->is_on)
                        entity->on_since = turns->now;
                entity->is_on = on;
                if (on)
                        wake_at(turns, entity->stops_at);
                entity->is_new = false;
                ret[i] = (struct turns_order){ .is_disabled = !on, .slice = SLICE_OWN };
        }
        if (turns->policy == TURNS_POLICY_SLICES)
                slices_set(turns, ret);
        if (turns->policy != TURNS_POLICY_NONE)
                class_set(turns, view, ret);
        for (size_t i = 0; i < turns->n; i++)
                turns->entities[i].slice = ret[i].slice ? ret[i].slice : SLICE_DRIVER;
}

nsec turns_next(struct turns *turns, const struct turns_view *view, struct turns_order *ret_orders)
{
        turns->now = nsec_max(view->now, turns->now);
        turns->wake_at = turns->now + (view->n_tenants ? CALL_PERIOD : IDLE_CALL_PERIOD);
        policy_choose(turns);
        entities_follow(turns, view);
        if (!turns->before)
                turns->before = turns->now;
        shares_set(turns, view);
        demand_allow(turns, view);
        account_update(turns, view);
        cap_update(turns, view);
        policy_apply(turns, view);
        orders_write(turns, view, ret_orders);
        turns->before = turns->now;
        return nsec_max(turns->wake_at, turns->now + CALL_SPACING);
}
