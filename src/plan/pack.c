/* SPDX-License-Identifier: Apache-2.0 */
/* Largest first, each where it leaves the least over; the mode with the fewest drawbacks that fits. */
#include "plan/plan.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

const struct plan_facts plan_facts = {
#define FACT(name, value, unit, meaning, source) .name = (value),
#include "plan/facts.def"
#undef FACT
};

/* In this order: isolation without loss; faster but with a common fault; not changeable while it runs; with waiting. */
static bool best_mode(const struct plan *plan, struct plan_device *device)
{
        static const enum plan_mode order[] = { PLAN_WHOLE,   PLAN_SLICES, PLAN_TURNS,
                                                PLAN_SPATIAL, PLAN_MIG,    PLAN_SUSPEND };
        char reason[PLAN_TEXT] = "";

        for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
                if (plan_fit(plan, device, order[i]))
                        return true;
                /* the useful reason is why turns do not fit; for one replica alone, why the whole device does not */
                if (order[i] == (device->n_seats > 1 || device->others.way ? PLAN_TURNS : PLAN_WHOLE))
                        memcpy(reason, device->reason, sizeof(reason));
        }
        memcpy(device->reason, reason, sizeof(reason));
        return false;
}

static bool try_seat(const struct plan *plan, const struct plan_device *on, const struct plan_seat *seat,
                     struct plan_device *ret)
{
        *ret = *on;
        if (ret->n_seats == PLAN_SEATS_MAX) {
                (void)snprintf(ret->reason, sizeof(ret->reason), "%d replicas are on it already", PLAN_SEATS_MAX);
                return false;
        }
        ret->seats[ret->n_seats++] = *seat;
        return best_mode(plan, ret);
}

/* The open device that has least memory over afterwards; an unopened one only if no open one can. */
static void place(struct plan *plan, const struct plan_seat *seat)
{
        struct plan_device tried, best;
        struct plan_left *left;
        size_t at = plan->n_devices;
        char reason[PLAN_TEXT] = "there is no device";

        for (int opened = 1; opened >= 0 && at == plan->n_devices; opened--)
                for (size_t i = 0; i < plan->n_devices; i++) {
                        if ((plan->devices[i].n_seats > 0) != opened)
                                continue;
                        if (!try_seat(plan, &plan->devices[i], seat, &tried)) {
                                memcpy(reason, tried.reason, sizeof(reason));
                                continue;
                        }
                        if (at < plan->n_devices && tried.memory_free >= best.memory_free)
                                continue;
                        at = i;
                        best = tried;
                }
        if (at < plan->n_devices) {
                plan->devices[at] = best;
                return;
        }
        if (plan->n_left == PLAN_REPLICAS_MAX)
                return;
        left = &plan->left[plan->n_left++];
        *left = (struct plan_left){ .service = seat->service, .replica = seat->replica };
        memcpy(left->reason, reason, sizeof(reason));
}

/* The hardest to place first: untrusted, then large, then with a tight goal. */
static bool is_before(const struct plan_service *a, const struct plan_service *b)
{
        if ((a->trust == PLAN_UNTRUSTED) != (b->trust == PLAN_UNTRUSTED))
                return a->trust == PLAN_UNTRUSTED;
        if (a->memory != b->memory)
                return a->memory > b->memory;
        return a->goal && (!b->goal || a->goal < b->goal);
}

static void put_in_order(const struct plan *plan, unsigned int order[static PLAN_SERVICES_MAX])
{
        for (unsigned int i = 0; i < plan->n_services; i++) {
                unsigned int at = i;

                for (; at && is_before(&plan->services[i], &plan->services[order[at - 1]]); at--)
                        order[at] = order[at - 1];
                order[at] = i;
        }
}

static bool has_seat(const struct plan_device *device, const struct plan_seat *seat)
{
        for (size_t i = 0; i < device->n_seats; i++)
                if (device->seats[i].service == seat->service && device->seats[i].replica == seat->replica)
                        return true;
        return false;
}

/* First those that run, where they run; then the others, wherever there is room. */
static void place_in_turn(struct plan *plan, const struct plan_seat *seat, bool is_pinned)
{
        struct plan_device tried, *device = NULL;

        for (size_t i = 0; i < plan->n_pins; i++)
                if (plan->pins[i].service == seat->service && plan->pins[i].replica == seat->replica)
                        device = &plan->devices[plan->pins[i].device];
        if (!is_pinned && !(device && has_seat(device, seat)))
                place(plan, seat);
        if (is_pinned && device && try_seat(plan, device, seat, &tried))
                *device = tried;
}

void plan_make(struct plan *plan)
{
        unsigned int order[PLAN_SERVICES_MAX] = { 0 };

        plan->n_left = 0;
        for (size_t i = 0; i < plan->n_devices; i++)
                plan->devices[i] =
                        (struct plan_device){ .model = plan->devices[i].model, .others = plan->devices[i].others };
        put_in_order(plan, order);
        for (int is_pinned = 1; is_pinned >= 0; is_pinned--)
                for (size_t i = 0; i < plan->n_services; i++)
                        for (unsigned int replica = 0; replica < plan->services[order[i]].count; replica++)
                                place_in_turn(plan, &(struct plan_seat){ .service = order[i], .replica = replica },
                                              is_pinned);
}
