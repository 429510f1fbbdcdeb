/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a tenant with --swap stays in while others wait for its device (swapper.h, X5 and X8).
 *
 * Those that contend for a device go round, and in a cycle each is in once: of as many at a time as are in now, for
 * its share of all that they are in together, its moves included. A cycle is as short as the turns of X5 allow, and of
 * those the nearest that fills a minute a whole number of times: then any minute, wherever it begins, has whole cycles
 * only, and in it each has had its share. Cycles longer than a minute even out over several.
 */
#include "daemon/state/suspend/swapper.h"

#define MINUTE (60 * NSEC_PER_SEC)
/* A small share beside a large one may get more than its share; the others do not wait for ever. */
#define CYCLE_MOST (5 * MINUTE)

static nsec least_of(const struct swapper_view *view, const struct swapper_tenant *tenant)
{
        return tenant->cost / view->part * TURNS_WHOLE;
}

/* It is in and has nothing to do: it has no slot to finish, and none to come. */
static bool is_idle(const struct swapper_view *view, const struct swapper_tenant *tenant)
{
        nsec since = tenant->worked_at > tenant->in_since ? tenant->worked_at : tenant->in_since;

        return tenant->place == SWAPPER_IN && view->now - since >= SWAPPER_IDLE;
}

static bool contends(const struct swapper_view *view, const struct swapper_tenant *tenant, unsigned int device)
{
        if (!tenant->promised[device])
                return false;
        switch (tenant->place) {
        case SWAPPER_OUT:
                return tenant->waits;
        case SWAPPER_IN:
                return tenant->may_leave && !is_idle(view, tenant);
        default:
                return true;
        }
}

static permille share_of(const struct swapper_tenant *tenant)
{
        return tenant->share ? tenant->share : 1;
}

/* Of a cycle, that it is in. */
static double part_of(const struct swapper_tenant *tenant, double n_in, double shares)
{
        double part = share_of(tenant) * n_in / shares;

        return part < 1 ? part : 1;
}

/* For which all turns are long enough. */
static nsec cycle_of(const struct swapper_view *view, unsigned int device, double n_in, double shares)
{
        nsec needed = 1;

        for (size_t i = 0; i < view->n; i++) {
                const struct swapper_tenant *tenant = &view->tenants[i];
                double cycle = (double)(least_of(view, tenant) + tenant->cost) / part_of(tenant, n_in, shares);

                if (contends(view, tenant, device) && cycle > (double)needed)
                        needed = cycle < CYCLE_MOST ? (nsec)cycle : CYCLE_MOST;
        }
        return needed < MINUTE ? MINUTE / (MINUTE / needed) : needed;
}

struct round {
        size_t n;
        double n_in, shares; /* of those that contend */
        nsec came;           /* the latest of those that are in */
};

static struct round round_of(const struct swapper_view *view, unsigned int device)
{
        struct round ret = { 0 };

        for (size_t i = 0; i < view->n; i++) {
                const struct swapper_tenant *tenant = &view->tenants[i];

                if (!contends(view, tenant, device))
                        continue;
                ret.n++;
                ret.n_in += tenant->place != SWAPPER_OUT;
                ret.shares += share_of(tenant);
                if (tenant->place == SWAPPER_IN && tenant->in_since > ret.came)
                        ret.came = tenant->in_since;
        }
        return ret;
}

/* Where several are in, exchanges are apart: else those that came together leave together, and go round in pairs. Each
 * waits one gap longer at most, whoever comes in meanwhile. */
static bool is_over_on(const struct swapper_view *view, const struct swapper_tenant *tenant, unsigned int device)
{
        struct round round = round_of(view, device);
        nsec in = view->now - tenant->in_since, cycle, slot, gap;

        if (round.n < 2 || round.n_in < 1 || !contends(view, tenant, device))
                return true;
        cycle = cycle_of(view, device, round.n_in, round.shares);
        slot = (nsec)((double)cycle * part_of(tenant, round.n_in, round.shares)) - tenant->cost;
        gap = cycle / (nsec)round.n;
        return in >= slot && (round.n_in < 2 || in >= slot + gap || view->now - round.came >= gap - tenant->cost);
}

bool swapper_turn_is_over(const struct swapper_view *view, const struct swapper_tenant *tenant)
{
        bool is_over = view->now - tenant->in_since >= least_of(view, tenant);

        if (is_idle(view, tenant))
                return is_over || tenant->worked_at < tenant->in_since;
        for (unsigned int d = 0; d < view->n_devices; d++)
                is_over = is_over && is_over_on(view, tenant, d);
        return is_over;
}
