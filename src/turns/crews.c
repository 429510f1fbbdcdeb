/* SPDX-License-Identifier: Apache-2.0 */
#include "turns/crews.h"

#include "turns/inside.h"

#define WORKS (50 * NSEC_PER_MSEC) /* after its latest launch */

static size_t crew_find(const struct crews *crews, uint64_t id)
{
        size_t i = 0;

        while (i < crews->view.n_tenants && crews->tenants[i].crew != id)
                i++;
        return i;
}

static struct turns_tenant crew_new(uint64_t id, const struct crews_meter *meters, size_t n_meters)
{
        struct turns_tenant crew = { .id = id,
                                     .crew = id,
                                     .cap = TURNS_WHOLE,
                                     .class = TURNS_BATCH,
                                     .work = TURNS_WORK_NONE,
                                     .watched_at = INT64_MAX };

        for (size_t i = 0; i < n_meters; i++)
                if (meters[i].id == id) {
                        crew.used = meters[i].used;
                        crew.started_at = meters[i].started_at;
                        crew.stopped_at = meters[i].stopped_at;
                        crew.n_starts = meters[i].n_starts;
                        crew.is_resident = meters[i].is_resident;
                        crew.n_groups = meters[i].n_groups;
                }
        return crew;
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

static void crew_join(struct turns_tenant *crew, const struct turns_tenant *member, nsec now)
{
        bool works = member->launched_at && now - member->launched_at < WORKS;

        crew->share += member->share;
        crew->n_equal += !member->share;
        crew->class = most_sensitive(crew->class, member->class);
        crew->work = work_of_both(crew->work, member->work);
        crew->launched_at = nsec_max(crew->launched_at, member->launched_at);
        crew->watched_at = nsec_min(crew->watched_at, member->watched_at);
        crew->has_waiter |= works && member->work == TURNS_WORK_NONE && member->class != TURNS_BATCH;
        if (member->goal)
                crew->goal = crew->goal ? nsec_min(crew->goal, member->goal) : member->goal;
}

void crews_fold(const struct turns_view *view, const struct crews_meter *meters, size_t n_meters, struct crews *ret)
{
        ret->view = *view;
        ret->view.tenants = ret->tenants;
        ret->view.n_tenants = 0;
        ret->n_folded = view->n_tenants;
        for (size_t i = 0; i < view->n_tenants; i++) {
                const struct turns_tenant *tenant = &view->tenants[i];
                size_t at = tenant->crew ? crew_find(ret, tenant->crew) : ret->view.n_tenants;

                if (at == ret->view.n_tenants) {
                        ret->view.n_tenants++;
                        ret->tenants[at] = tenant->crew ? crew_new(tenant->crew, meters, n_meters) : *tenant;
                }
                if (tenant->crew)
                        crew_join(&ret->tenants[at], tenant, view->now);
                ret->entity_of[i] = at;
        }
}

void crews_unfold(const struct crews *crews, const struct turns_order *orders, struct turns_order *ret)
{
        for (size_t i = 0; i < crews->n_folded; i++)
                ret[i] = orders[crews->entity_of[i]];
}
