/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams: the tenants of a trust group on one device (`sublet run --group`). They work side by side, and to all other
 * tenants they are one: a team is on or off as a whole, with the shares of all its mates. So a view is folded before
 * a policy sees it, and the policy's orders are unfolded for the mates; what turns.h promises to a tenant is promised
 * to a team, and no policy knows of teams.
 *
 *      teams_fold(&view, meters, n, &teams);            a view with one tenant per team
 *      turns_next(turns, &teams.view, folded);
 *      teams_unfold(&teams, folded, orders);            an order per tenant of the view
 *
 *      C1  All mates of a team have the same order.
 *      C2  A team's share is what its mates were promised, and an equal part of the rest for each that was promised
 *          nothing: to others it makes no difference whether tenants have joined to a team.
 *      C3  It wants the device as long as one mate does. What a mate's rings say counts as the team's claim, and
 *          the meter is asked whether the team was on the device.
 *      C4  It has the class of its most sensitive mate, and no cap: a mate's cap is one of multiprocessors.
 *
 * Pure. A tenant of a gang is in no team.
 */
#pragma once

#include "turns/turns.h"

/* What the meter says of a team. Mates come and go, and its figures do not fall: the caller counts them. */
struct teams_meter {
        uint64_t id; /* no tenant's of the view */
        nsec used, started_at, stopped_at;
        uint64_t n_starts;
        bool is_resident;
        unsigned int n_groups;
};

struct teams {
        struct turns_view view; /* of `tenants` */
        struct turns_tenant tenants[TURNS_TENANTS_MAX];
        size_t n_folded;                     /* tenants of the view that was folded */
        size_t entity_of[TURNS_TENANTS_MAX]; /* where each of them is in `tenants` */
};

/* A team without a meter has used nothing yet. */
void teams_fold(const struct turns_view *view, const struct teams_meter *meters, size_t n_meters, struct teams *ret);
void teams_unfold(const struct teams *teams, const struct turns_order *orders, struct turns_order *ret);
