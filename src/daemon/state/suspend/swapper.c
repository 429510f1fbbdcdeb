/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes and who leaves: swapper.h. How long a turn is: slots.c. */
#include "daemon/state/suspend/swapper.h"

#include <string.h>

struct swapper {
        const struct swapper_view *view;
        struct swapper_decision *decisions;
        bytes taken[LEASE_DEVICES_MAX];                                   /* X1 */
        bool is_moving[LEASE_DEVICES_MAX], is_blocked[LEASE_DEVICES_MAX]; /* X7, X2 */
        bool is_decided;                    /* an exchange begins: the next one with the next look */
        const struct swapper_tenant *first; /* that waits for turns; NULL: none, or nobody may pass it any more */
        unsigned int n_firsts;
        unsigned int whom; /* leaves for it */
};

nsec swapper_rest(nsec idle)
{
        return idle < SWAPPER_REST_MOST ? idle : SWAPPER_REST_MOST;
}

static void take(struct swapper *swapper, const struct swapper_tenant *tenant)
{
        for (unsigned int d = 0; d < swapper->view->n_devices; d++)
                swapper->taken[d] += tenant->promised[d];
}

static void give(struct swapper *swapper, const struct swapper_tenant *tenant)
{
        for (unsigned int d = 0; d < swapper->view->n_devices; d++)
                swapper->taken[d] -= tenant->promised[d];
}

/* It has its promise instead of what it had left there. */
static void come(struct swapper *swapper, const struct swapper_tenant *tenant)
{
        take(swapper, tenant);
        for (unsigned int d = 0; d < swapper->view->n_devices; d++) {
                swapper->taken[d] -= tenant->left[d];
                swapper->is_moving[d] |= tenant->promised[d] != 0;
        }
}

static bool has_room(const struct swapper *swapper, unsigned int device, const struct swapper_tenant *tenant)
{
        bytes taken = swapper->taken[device] - tenant->left[device];

        return !tenant->promised[device] || taken + tenant->promised[device] <= swapper->view->room[device];
}

static bool is_on_any(const struct swapper *swapper, const struct swapper_tenant *tenant,
                      const bool devices[static LEASE_DEVICES_MAX])
{
        for (unsigned int d = 0; d < swapper->view->n_devices; d++)
                if (tenant->promised[d] && devices[d])
                        return true;
        return false;
}

static bool is_exchanging(const struct swapper *swapper, const struct swapper_tenant *tenant)
{
        return swapper->is_decided || is_on_any(swapper, tenant, swapper->is_moving);
}

static bool fits(const struct swapper *swapper, const struct swapper_tenant *tenant)
{
        for (unsigned int d = 0; d < swapper->view->n_devices; d++)
                if (!has_room(swapper, d, tenant))
                        return false;
        return true;
}

/* ---- who leaves -------------------------------------------------------------------------------------- */

enum whom {
        BUT_LATENCY = 1, /* X4 */
        IF_OVER = 2,     /* X5 */
};

static bool may_leave(const struct swapper *swapper, size_t i, const struct swapper_tenant *comes, unsigned int whom)
{
        const struct swapper_tenant *tenant = &swapper->view->tenants[i];
        bool helps = false;

        if (tenant->place != SWAPPER_IN || !tenant->may_leave || swapper->decisions[i].order == SWAPPER_LEAVE)
                return false;
        if (((whom & BUT_LATENCY) && tenant->is_latency) ||
            ((whom & IF_OVER) && !swapper_turn_is_over(swapper->view, tenant)))
                return false;
        for (unsigned int d = 0; d < swapper->view->n_devices; d++)
                helps |= tenant->promised[d] && !has_room(swapper, d, comes);
        return helps;
}

/* X4 */
static bool leaves_before(const struct swapper_tenant *a, const struct swapper_tenant *b)
{
        if (a->is_latency != b->is_latency)
                return b->is_latency;
        if (a->worked_at != b->worked_at)
                return a->worked_at < b->worked_at;
        return a->in_since < b->in_since;
}

static size_t next_of(const struct swapper *swapper, const struct swapper_tenant *comes, unsigned int whom)
{
        size_t n = swapper->view->n, best = n;

        for (size_t i = 0; i < n; i++)
                if (may_leave(swapper, i, comes, whom) &&
                    (best == n || leaves_before(&swapper->view->tenants[i], &swapper->view->tenants[best])))
                        best = i;
        return best;
}

/* X3: from the one chosen last on, who need not leave after all stays. */
static void spare(struct swapper *swapper, const struct swapper_tenant *comes, size_t n_chosen)
{
        for (size_t rank = n_chosen; rank-- > 0;)
                for (size_t i = 0; i < swapper->view->n; i++) {
                        struct swapper_decision *decision = &swapper->decisions[i];

                        if (decision->order != SWAPPER_LEAVE || decision->rank != rank)
                                continue;
                        take(swapper, &swapper->view->tenants[i]);
                        if (fits(swapper, comes)) {
                                decision->order = SWAPPER_STAY;
                                continue;
                        }
                        give(swapper, &swapper->view->tenants[i]);
                }
}

static void keep_all(struct swapper *swapper)
{
        for (size_t i = 0; i < swapper->view->n; i++) {
                if (swapper->decisions[i].order != SWAPPER_LEAVE)
                        continue;
                swapper->decisions[i].order = SWAPPER_STAY;
                take(swapper, &swapper->view->tenants[i]);
        }
}

/* Marks those that leave. False: they are not enough, and nobody is marked. */
static bool choose(struct swapper *swapper, const struct swapper_tenant *comes, unsigned int whom)
{
        size_t n = 0, i;

        while (!fits(swapper, comes)) {
                i = next_of(swapper, comes, whom);
                if (i == swapper->view->n) {
                        keep_all(swapper);
                        return false;
                }
                swapper->decisions[i].order = SWAPPER_LEAVE;
                swapper->decisions[i].rank = n++;
                give(swapper, &swapper->view->tenants[i]);
        }
        spare(swapper, comes, n);
        return true;
}

/* X6 */
static bool host_holds(const struct swapper *swapper)
{
        bytes sum = 0;

        for (size_t i = 0; i < swapper->view->n; i++)
                if (swapper->decisions[i].order == SWAPPER_LEAVE)
                        sum += swapper->view->tenants[i].held;
        return sum <= swapper->view->host;
}

/* For one that does not fit. */
static enum swapper_why make_room(struct swapper *swapper, const struct swapper_tenant *comes)
{
        unsigned int whom = BUT_LATENCY;

        if (!choose(swapper, comes, whom)) {
                whom = 0;
                if (!choose(swapper, comes, whom))
                        return SWAPPER_FOR_NOBODY;
        }
        keep_all(swapper);
        if (!choose(swapper, comes, whom | IF_OVER)) {
                swapper->first = swapper->n_firsts++ ? NULL : comes;
                swapper->whom = whom;
                return SWAPPER_FOR_TURNS;
        }
        if (!host_holds(swapper)) {
                keep_all(swapper);
                return SWAPPER_FOR_HOST;
        }
        swapper->is_decided = true;
        return SWAPPER_FOR_MOVES;
}

/* ---- who comes --------------------------------------------------------------------------------------- */

static size_t next_waiting(const struct swapper *swapper)
{
        const struct swapper_view *view = swapper->view;
        size_t best = view->n;

        for (size_t i = 0; i < view->n; i++)
                if (view->tenants[i].place == SWAPPER_OUT && view->tenants[i].waits && !swapper->decisions[i].is_done &&
                    (best == view->n || view->tenants[i].waits_since < view->tenants[best].waits_since))
                        best = i;
        return best;
}

static bool has_end(enum swapper_why why)
{
        return why != SWAPPER_FOR_HOST && why != SWAPPER_FOR_NOBODY;
}

/* X2: beside one that passes it, the first must still have room without that one's leaving. */
static bool may_pass(struct swapper *swapper, const struct swapper_tenant *tenant)
{
        bool has_room_too;

        if (!swapper->first || is_exchanging(swapper, tenant) || is_exchanging(swapper, swapper->first))
                return false;
        take(swapper, tenant);
        has_room_too = choose(swapper, swapper->first, swapper->whom);
        keep_all(swapper);
        give(swapper, tenant);
        return has_room_too;
}

static enum swapper_why look_at(struct swapper *swapper, size_t i)
{
        const struct swapper_tenant *tenant = &swapper->view->tenants[i];
        bool is_blocked = is_on_any(swapper, tenant, swapper->is_blocked);

        if (fits(swapper, tenant) && (!is_blocked || may_pass(swapper, tenant))) {
                swapper->decisions[i].order = SWAPPER_COME;
                come(swapper, tenant);
                return SWAPPER_NOT_WAITING;
        }
        if (is_blocked)
                return SWAPPER_FOR_OTHERS;
        return is_exchanging(swapper, tenant) ? SWAPPER_FOR_MOVES : make_room(swapper, tenant);
}

/* X2 */
static void block(struct swapper *swapper, const struct swapper_tenant *tenant)
{
        for (unsigned int d = 0; d < swapper->view->n_devices; d++)
                swapper->is_blocked[d] |= tenant->promised[d] != 0;
}

void swapper_decide(const struct swapper_view *view, struct swapper_decision *ret)
{
        struct swapper swapper = { .view = view, .decisions = ret };
        size_t i;

        memset(ret, 0, view->n * sizeof(*ret));
        for (i = 0; i < view->n; i++) {
                const struct swapper_tenant *tenant = &view->tenants[i];
                bool is_moving = tenant->place == SWAPPER_LEAVES || tenant->place == SWAPPER_COMES;

                for (unsigned int d = 0; d < view->n_devices; d++) {
                        swapper.taken[d] += tenant->place == SWAPPER_OUT ? tenant->left[d] : tenant->promised[d];
                        swapper.is_moving[d] |= is_moving && tenant->promised[d];
                }
        }
        while ((i = next_waiting(&swapper)) < view->n) {
                ret[i].is_done = true;
                ret[i].why = look_at(&swapper, i);
                if (ret[i].order != SWAPPER_COME && has_end(ret[i].why))
                        block(&swapper, &view->tenants[i]);
        }
}

/* ---- host memory ------------------------------------------------------------------------------------- */

void swapper_host_add(struct swapper_host *host, const bytes promised[static LEASE_DEVICES_MAX])
{
        unsigned int n = 0;

        for (unsigned int d = 0; d < LEASE_DEVICES_MAX; d++) {
                n += promised[d] != 0;
                exchange_add(&host->devices[d], promised[d]);
        }
        host->is_spread |= n > 1;
}

bytes swapper_host_needed(const struct swapper_host *host, const bytes room[static LEASE_DEVICES_MAX],
                          unsigned int n_devices)
{
        struct exchange_host all = { 0 };

        for (unsigned int d = 0; d < n_devices; d++)
                exchange_host_add(&all, &host->devices[d], room[d]);
        return exchange_host_needs(&all, host->is_spread);
}
