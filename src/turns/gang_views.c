/* SPDX-License-Identifier: Apache-2.0 */
/* Gangs: what devices tell of them, and what they are told. gangs.h has the rules. */
#include "turns/gang_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOON (100 * NSEC_PER_USEC)

int gangs_new(const struct turns_settings *settings, struct gangs **ret)
{
        struct gangs *gangs = calloc(1, sizeof(*gangs));

        if (!gangs)
                return -ENOMEM;
        gangs->policy = turns_policy_in_force(settings);
        gangs->period = turns_period(settings);
        gangs->period_most = settings->period ? gangs->period : 2 * gangs->period;
        for (unsigned int d = 0; d < GANGS_DEVICES_MAX; d++)
                gangs->rounds[d].length = gangs->period;
        for (unsigned int d = 0; d < GANGS_DEVICES_MAX; d++)
                gangs->devices[d].wake = gangs->devices[d].wakes_at = gangs->wake[d] = INT64_MAX;
        *ret = gangs;
        return 0;
}

struct gangs *gangs_free(struct gangs *gangs)
{
        free(gangs);
        return NULL;
}

/* ---- what a device tells --------------------------------------------------------------------- */

/* A gang's index, or that of a free slot; NOBODY: all are taken, and the device decides alone. */
static int slot_find(struct gangs *gangs, uint64_t id, int hint)
{
        int empty = NOBODY;

        if (hint != NOBODY && gangs->gangs[hint].id == id)
                return hint;
        for (int i = 0; i < (int)gangs->n; i++) {
                if (gangs->gangs[i].id == id)
                        return i;
                if (!gangs->gangs[i].id && empty == NOBODY)
                        empty = i;
        }
        if (empty == NOBODY && gangs->n < GANGS_MAX)
                empty = (int)gangs->n++;
        if (empty != NOBODY)
                gangs->gangs[empty] = (struct gang){ .id = id, .accounted_at = gangs->now };
        return empty;
}

static void sign_add(struct turns_sign *to, const struct turns_sign *more)
{
        to->wants_more |= more->wants_more;
        to->is_satisfied &= more->is_satisfied;
        to->is_blocked |= more->is_blocked;
        to->is_capped |= more->is_capped;
        to->is_patient &= more->is_patient;
        to->is_resident |= more->is_resident;
        to->is_at_work |= more->is_at_work;
        to->debt = nsec_max(to->debt, more->debt);
        to->used += more->used;
        to->started_at = nsec_max(to->started_at, more->started_at);
        to->beside = nsec_max(to->beside, more->beside);
        to->share += more->share;
        to->fair += more->fair;
}

static void rank_tell(struct gang *gang, unsigned int device, const struct turns_sign *sign, nsec always_on)
{
        struct rank *rank = &gang->ranks[device];
        bool is_new = !(gang->devices & 1u << device);

        if (rank->n_entities++)
                sign_add(&rank->sign, sign);
        else
                rank->sign = *sign;
        gang->n_entities++;
        gang->devices |= 1u << device;
        if (!is_new)
                return;
        rank->is_asleep = rank->was_seen = false;
        rank->used = rank->sign.used;
        rank->always_on = always_on;
}

/* What the device has told before is forgotten; a gang without any device is gone. */
static void device_leave(struct gangs *gangs, unsigned int device)
{
        for (size_t i = 0; i < gangs->n; i++) {
                struct gang *gang = &gangs->gangs[i];

                gang->n_entities -= gang->ranks[device].n_entities;
                gang->ranks[device].n_entities = 0;
        }
}

static void gangs_forget(struct gangs *gangs, unsigned int device)
{
        for (size_t i = 0; i < gangs->n; i++) {
                struct gang *gang = &gangs->gangs[i];

                if (!(gang->devices & 1u << device) || gang->ranks[device].n_entities)
                        continue;
                gang->devices &= ~(1u << device);
                gangs->changed |= gang->devices;
                if (!gang->devices)
                        *gang = (struct gang){ 0 };
        }
        while (gangs->n && !gangs->gangs[gangs->n - 1].id)
                gangs->n--;
}

/* The meter may name a rank that was on the device before the gang came on, so its time counts. */
static void ranks_see(struct gangs *gangs, unsigned int device, const struct turns_view *view)
{
        for (size_t i = 0; i < gangs->n; i++) {
                struct gang *gang = &gangs->gangs[i];
                struct rank *rank = &gang->ranks[device];

                if (!rank->n_entities)
                        continue;
                rank->told_at = view->now;
                rank->metered_until = nsec_min(view->metered_until, view->now);
                rank->was_seen |= rank->sign.started_at >= gang->since ||
                                  (rank->sign.is_resident && rank->metered_until >= gang->since);
        }
}

void gangs_tell(struct gangs *gangs, unsigned int device, const struct turns_view *view, const struct turns_sign *signs,
                const struct gangs_rest *rest)
{
        struct gangs_device *told = &gangs->devices[device];
        size_t n_before = told->n_slots;

        gangs->now = nsec_max(gangs->now, view->now);
        device_leave(gangs, device);
        told->rest = *rest;
        told->n_slots = view->n_tenants;
        for (size_t i = 0; i < view->n_tenants; i++) {
                int hint = i < n_before ? told->slots[i] : NOBODY;

                told->slots[i] = signs[i].is_rank ? slot_find(gangs, view->tenants[i].gang, hint) : NOBODY;
                if (told->slots[i] != NOBODY)
                        rank_tell(&gangs->gangs[told->slots[i]], device, &signs[i], rest->always_on);
        }
        gangs_forget(gangs, device);
        ranks_see(gangs, device, view);
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* Those that must be told now: something has changed for them, or they sleep longer than they should. */
static uint32_t to_tell(const struct gangs *gangs)
{
        uint32_t changed = 0;

        for (unsigned int d = 0; d < GANGS_DEVICES_MAX; d++) {
                const struct gangs_device *device = &gangs->devices[d];
                nsec wake = nsec_min(device->wake, gangs->wake[device->domain]);

                if (device->wakes_at > gangs->now + SOON &&
                    (gangs->changed & 1u << d || wake < device->wakes_at - SOON))
                        changed |= 1u << d;
        }
        return changed;
}

uint32_t gangs_next(struct gangs *gangs, nsec now)
{
        gangs->now = nsec_max(gangs->now, now);
        for (unsigned int d = 0; d < GANGS_DEVICES_MAX; d++)
                gangs->devices[d].wake = INT64_MAX;
        if (gangs->policy == TURNS_POLICY_TURNS || gangs->policy == TURNS_POLICY_STRICT) {
                for (size_t i = 0; i < gangs->n; i++)
                        if (is_gang(&gangs->gangs[i]))
                                gang_demand_update(gangs, &gangs->gangs[i]);
                gang_rounds_next(gangs);
        }
        return to_tell(gangs);
}

/* ---- what a device is told ------------------------------------------------------------------- */

static struct turns_gang_order order_of(const struct gang *gang, unsigned int device)
{
        const struct rank *rank = &gang->ranks[device];
        struct turns_gang_order order = { .is_time_sliced = gang->is_time_sliced,
                                          .weight = rank->is_asleep ? 1 : gang->weight,
                                          .until = gang->until };

        if (gang->is_time_sliced && gang->is_on) {
                order.state = TURNS_GANG_ON;
                order.has_device = !rank->is_asleep;
        } else if (gang->is_time_sliced || gang->is_blocked) {
                order.state = TURNS_GANG_OFF;
        } else {
                order.state = TURNS_GANG_FREE;
        }
        return order;
}

void gangs_orders(struct gangs *gangs, unsigned int device, const struct turns_view *view,
                  struct turns_gang_order *ret_orders)
{
        const struct gangs_device *told = &gangs->devices[device];
        bool has_turns = gangs->policy == TURNS_POLICY_TURNS || gangs->policy == TURNS_POLICY_STRICT;

        for (size_t i = 0; i < view->n_tenants; i++) {
                const struct gang *gang =
                        i < told->n_slots && told->slots[i] != NOBODY ? &gangs->gangs[told->slots[i]] : NULL;

                ret_orders[i] =
                        gang && has_turns && is_gang(gang) ? order_of(gang, device) : (struct turns_gang_order){ 0 };
        }
}

nsec gangs_wake(struct gangs *gangs, unsigned int device)
{
        struct gangs_device *told = &gangs->devices[device];

        told->wakes_at = nsec_min(told->wake, gangs->wake[told->domain]);
        gangs->changed &= ~(1u << device);
        return told->wakes_at;
}
