/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crews (turns/crews.h): what the meter says of them, and what each member is billed.
 *
 * Members are clients of one MPS server, and compute in its channel group: a record names the server's context and its
 * process, and nobody tells which client was at work. So that time is billed in equal parts to those who had work, and
 * to all where none shows any: the sum is what the crew had, to the nanosecond. What a member has in a context of its
 * own (before it knows of the server, or where there is none) is metered as any tenant's.
 */
#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>

#define WORKS SCHED_TICK /* after its latest launch */

/* ---- who is in it ---------------------------------------------------------------------------------------------- */

static struct sched_crew *crew_find(const struct sched *sched, uint64_t id)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->crew && sched->tenants[i]->crew->id == id)
                        return sched->tenants[i]->crew;
        return NULL;
}

int crew_join(struct sched *sched, struct sched_entity *tenant, uint64_t id)
{
        struct sched_crew *crew = id ? crew_find(sched, id) : NULL;

        if (id && !crew) {
                crew = calloc(1, sizeof(*crew));
                if (!crew)
                        return -ENOMEM;
                crew->id = id;
        }
        if (crew)
                crew->n_members++;
        tenant->crew = crew;
        return 0;
}

void crew_part(struct sched *sched, struct sched_entity *tenant)
{
        struct sched_crew *crew = tenant->crew;

        tenant->crew = NULL;
        if (!crew || --crew->n_members)
                return;
        if (sched->crew == crew)
                sched->crew = NULL;
        free(crew);
}

int sched_crew_serve(struct sched *sched, uint64_t id, pid_t server)
{
        LOCKED(&sched->lock);
        struct sched_crew *crew = crew_find(sched, id);

        if (!crew)
                return -ENOENT;
        crew->server = server;
        if (sched->is_occupied && !sched->resident && !sched->crew && (uint32_t)server == sched->process) {
                sched->crew = crew; /* the meter saw it before we knew of it */
                crew->started_at = sched->occupied_since;
                crew->n_turns++;
        }
        return 0;
}

struct sched_crew *crew_of_server(const struct sched *sched, uint32_t process)
{
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_crew *crew = sched->tenants[i]->crew;

                if (crew && crew->server > 0 && (uint32_t)crew->server == process)
                        return crew;
        }
        return NULL;
}

/* ---- its meter ------------------------------------------------------------------------------------------------- */

void crew_on(struct sched_crew *crew, nsec at)
{
        if (!crew)
                return;
        crew->started_at = at;
        crew->n_turns++;
}

void crew_off(struct sched_crew *crew, nsec from, nsec until, bool is_served)
{
        if (!crew)
                return;
        crew->closed += until - from;
        crew->served += is_served ? until - from : 0;
        crew->stopped_at = until;
}

static bool works(const struct sched *sched, const struct sched_entity *tenant)
{
        const struct control_device *device = tenant->device;

        return !device->can_watch || device->n_pending ||
               (device->launched_at && sched->state.metered_until - device->launched_at < WORKS);
}

bool crew_is_at_work(const struct sched *sched, const struct sched_entity *tenant)
{
        return sched->is_occupied && !sched->resident && tenant->crew && sched->crew == tenant->crew &&
               works(sched, tenant);
}

static void crew_bill(struct sched *sched, struct sched_crew *crew, nsec served)
{
        nsec n = 0, each;
        bool is_any;

        for (size_t i = 0; i < sched->n_tenants; i++)
                n += sched->tenants[i]->crew == crew && works(sched, sched->tenants[i]);
        is_any = n;
        each = (served - crew->billed) / (is_any ? n : (nsec)crew->n_members);
        if (each <= 0)
                return;
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                if (tenant->crew != crew || (is_any && !works(sched, tenant)))
                        continue;
                tenant->closed += each;
                crew->billed += each;
        }
}

static bool is_first_of_crew(const struct sched *sched, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (sched->tenants[k]->crew == sched->tenants[i]->crew)
                        return false;
        return sched->tenants[i]->crew;
}

void crews_until(struct sched *sched)
{
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_crew *crew = sched->tenants[i]->crew;
                nsec open = 0;

                if (!is_first_of_crew(sched, i))
                        continue;
                if (sched->is_occupied && sched->crew == crew && sched->state.metered_until > sched->occupied_since)
                        open = sched->state.metered_until - sched->occupied_since;
                if (crew->closed + open > crew->used)
                        crew->used = crew->closed + open;
                crew_bill(sched, crew, crew->served + (sched->resident ? 0 : open));
        }
}

/* ---- what the policy sees ---------------------------------------------------------------------------------------- */

/* All clients of a server are one channel group; without one each has its own. */
static unsigned int groups_of(const struct sched *sched, const struct sched_crew *crew)
{
        unsigned int n = 0;

        for (size_t i = 0; i < sched->n_tenants && !crew->server; i++)
                if (sched->tenants[i]->crew == crew)
                        n += sched->tenants[i]->channels.n_groups;
        return n ? n : 1;
}

void crews_view(struct sched *sched, const struct turns_view *view)
{
        size_t n = 0;

        for (size_t i = 0; i < sched->n_tenants; i++) {
                const struct sched_crew *crew = sched->tenants[i]->crew;

                if (!is_first_of_crew(sched, i))
                        continue;
                sched->crew_meters[n++] =
                        (struct crews_meter){ .id = crew->id,
                                              .used = crew->used,
                                              .started_at = crew->started_at,
                                              .stopped_at = crew->stopped_at,
                                              .n_starts = crew->n_turns,
                                              .is_resident = sched->is_occupied && sched->crew == crew,
                                              .n_groups = groups_of(sched, crew) };
        }
        crews_fold(view, sched->crew_meters, n, &sched->crews);
}
