/* SPDX-License-Identifier: Apache-2.0 */
/* The schedulers of all devices decide together; see together.h. */
#include "sched/together.h"

#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>

struct together {
        struct lock lock;
        struct gangs *gangs;
        struct sched *devices[GANGS_DEVICES_MAX]; /* that have told something */
};

int together_new(const struct turns_settings *settings, struct together **ret)
{
        struct together *together = calloc(1, sizeof(*together));

        if (!together)
                return -ENOMEM;
        if (gangs_new(settings, &together->gangs) < 0) {
                free(together);
                return -ENOMEM;
        }
        lock_init(&together->lock, LOCK_GANGS);
        *ret = together;
        return 0;
}

struct together *together_free(struct together *together)
{
        if (!together)
                return NULL;
        (void)gangs_free(together->gangs);
        lock_done(&together->lock);
        free(together);
        return NULL;
}

static bool has_gang(const struct turns_view *view)
{
        for (size_t i = 0; i < view->n_tenants; i++)
                if (view->tenants[i].gang)
                        return true;
        return false;
}

/* Under together->lock: a scheduler that is there has not ended. */
static void wake_others(struct together *together, uint32_t devices)
{
        for (unsigned int d = 0; d < GANGS_DEVICES_MAX; d++)
                if (devices & 1u << d && together->devices[d])
                        sched_wake(together->devices[d]);
}

/* What device has told, and what the decision is for it. Returns when to ask again. */
static nsec tell_and_ask(struct sched *sched, const struct turns_view *view, const struct turns_sign *signs,
                         struct turns_gang_order *ret)
{
        struct together *together = sched->settings.together;
        unsigned int device = sched->state.device;
        struct gangs_rest rest;
        LOCKED(&together->lock);

        rest.is_wanted = turns_rest(sched->turns, &rest.always_on);
        together->devices[device] = sched;
        gangs_tell(together->gangs, device, view, signs, &rest);
        wake_others(together, gangs_next(together->gangs, view->now) & ~(1u << device));
        gangs_orders(together->gangs, device, view, ret);
        return gangs_wake(together->gangs, device);
}

nsec together_decide(struct sched *sched, const struct turns_view *view, struct turns_order *ret_orders)
{
        nsec until, asked;

        if (!sched->settings.together || sched->state.device >= GANGS_DEVICES_MAX ||
            (!sched->has_told && !has_gang(view)))
                return turns_next(sched->turns, view, ret_orders);
        turns_look(sched->turns, view, sched->signs);
        asked = tell_and_ask(sched, view, sched->signs, sched->gang_orders);
        sched->has_told = has_gang(view);
        until = turns_decide(sched->turns, view, sched->gang_orders, ret_orders);
        return asked < until ? asked : until;
}

void together_leave(struct sched *sched)
{
        static const struct turns_view nobody = { 0 };
        struct together *together = sched->settings.together;
        unsigned int device = sched->state.device;

        if (!together || device >= GANGS_DEVICES_MAX)
                return;
        {
                LOCKED(&together->lock);
                if (together->devices[device] != sched)
                        return;
                together->devices[device] = NULL;
                gangs_tell(together->gangs, device, &nobody, NULL, &(struct gangs_rest){ 0 });
                wake_others(together, gangs_next(together->gangs, clock_now()));
        }
}
