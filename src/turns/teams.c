/* SPDX-License-Identifier: Apache-2.0 */
#include "turns/teams.h"

#include "turns/inside.h"

#define WORKS (50 * NSEC_PER_MSEC) /* after its latest launch */

static size_t team_find(const struct teams *teams, uint64_t id)
{
        size_t i = 0;

        while (i < teams->view.n_tenants && teams->tenants[i].team != id)
                i++;
        return i;
}

static struct turns_tenant team_new(uint64_t id, const struct teams_meter *meters, size_t n_meters)
{
        struct turns_tenant team = { .id = id,
                                     .team = id,
                                     .cap = TURNS_WHOLE,
                                     .class = TURNS_BATCH,
                                     .work = TURNS_WORK_NONE,
                                     .watched_at = INT64_MAX };

        for (size_t i = 0; i < n_meters; i++)
                if (meters[i].id == id) {
                        team.used = meters[i].used;
                        team.started_at = meters[i].started_at;
                        team.stopped_at = meters[i].stopped_at;
                        team.n_starts = meters[i].n_starts;
                        team.is_resident = meters[i].is_resident;
                        team.n_groups = meters[i].n_groups;
                }
        return team;
}

/* C4 */
static enum turns_class most_sensitive(enum turns_class a, enum turns_class b)
{
        if (a == TURNS_LATENCY || b == TURNS_LATENCY)
                return TURNS_LATENCY;
        return a == TURNS_NORMAL || b == TURNS_NORMAL ? TURNS_NORMAL : TURNS_BATCH;
}

/* C3. One that cannot be seen may have work at any time, unless another surely has. */
static enum turns_work work_of_both(enum turns_work a, enum turns_work b)
{
        if (a == TURNS_WORK_PENDING || b == TURNS_WORK_PENDING)
                return TURNS_WORK_PENDING;
        return a == TURNS_WORK_UNKNOWN || b == TURNS_WORK_UNKNOWN ? TURNS_WORK_UNKNOWN : TURNS_WORK_NONE;
}

static void team_join(struct turns_tenant *team, const struct turns_tenant *mate, nsec now)
{
        bool works = mate->launched_at && now - mate->launched_at < WORKS;

        team->share += mate->share;
        team->n_equal += !mate->share;
        team->class = most_sensitive(team->class, mate->class);
        team->work = work_of_both(team->work, mate->work);
        team->launched_at = nsec_max(team->launched_at, mate->launched_at);
        team->watched_at = nsec_min(team->watched_at, mate->watched_at);
        team->has_waiter |= works && mate->work == TURNS_WORK_NONE && mate->class != TURNS_BATCH;
        if (mate->goal)
                team->goal = team->goal ? nsec_min(team->goal, mate->goal) : mate->goal;
}

void teams_fold(const struct turns_view *view, const struct teams_meter *meters, size_t n_meters, struct teams *ret)
{
        ret->view = *view;
        ret->view.tenants = ret->tenants;
        ret->view.n_tenants = 0;
        ret->n_folded = view->n_tenants;
        for (size_t i = 0; i < view->n_tenants; i++) {
                const struct turns_tenant *tenant = &view->tenants[i];
                size_t at = tenant->team ? team_find(ret, tenant->team) : ret->view.n_tenants;

                if (at == ret->view.n_tenants) {
                        ret->view.n_tenants++;
                        ret->tenants[at] = tenant->team ? team_new(tenant->team, meters, n_meters) : *tenant;
                }
                if (tenant->team)
                        team_join(&ret->tenants[at], tenant, view->now);
                ret->entity_of[i] = at;
        }
}

void teams_unfold(const struct teams *teams, const struct turns_order *orders, struct turns_order *ret)
{
        for (size_t i = 0; i < teams->n_folded; i++)
                ret[i] = orders[teams->entity_of[i]];
}
