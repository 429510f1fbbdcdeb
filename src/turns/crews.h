/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crews: the tenants of a trust group on one device (`sublet run --group`). They work side by side, and to all other
 * tenants they are one: a crew is on or off as a whole, with the shares of all its members. So a view is folded before
 * a policy sees it, and the policy's orders are unfolded for the members; what turns.h promises to a tenant is promised
 * to a crew, and no policy knows of crews.
 *
 *      crews_fold(&view, meters, n, &crews);            a view with one tenant per crew
 *      turns_next(turns, &crews.view, folded);
 *      crews_unfold(&crews, folded, orders);            an order per tenant of the view
 *
 *      C1  All members of a crew have the same order.
 *      C2  A crew's share is what its members were promised, and an equal part of the rest for each that was promised
 *          nothing: to others it makes no difference whether tenants have joined to a crew.
 *      C3  It wants the device as long as one member does. What a member's rings say counts as the crew's claim, and
 *          the meter is asked whether the crew was on the device.
 *      C4  It has the class of its most sensitive member, and no cap: a member's cap is one of multiprocessors.
 *
 * Pure. A tenant of a gang is in no crew.
 */
#pragma once

#include "turns/turns.h"

/* What the meter says of a crew. Members come and go, and its figures do not fall: the caller counts them. */
struct crews_meter {
        uint64_t id; /* no tenant's of the view */
        nsec used, started_at, stopped_at;
        uint64_t n_starts;
        bool is_resident;
        unsigned int n_groups;
};

struct crews {
        struct turns_view view; /* of `tenants` */
        struct turns_tenant tenants[TURNS_TENANTS_MAX];
        size_t n_folded;                     /* tenants of the view that was folded */
        size_t entity_of[TURNS_TENANTS_MAX]; /* where each of them is in `tenants` */
};

/* A crew without a meter has used nothing yet. */
void crews_fold(const struct turns_view *view, const struct crews_meter *meters, size_t n_meters, struct crews *ret);
void crews_unfold(const struct crews *crews, const struct turns_order *orders, struct turns_order *ret);
