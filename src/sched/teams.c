/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams (turns/teams.h): what the meter says of them, and what each mate is billed.
 *
 * Mates are clients of one MPS server, and compute in its channel group: a record names the server's context and its
 * process, and nobody tells which client was at work. So that time is billed in equal parts to those who had work, and
 * to all where none shows any: the sum is what the team had, to the nanosecond. What a mate has in a context of its
 * own (before it knows of the server, or where there is none) is metered as any tenant's.
 */
#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>

#define WORKS SCHED_TICK /* after its latest launch */

/* ---- who is in it ---------------------------------------------------------------------------------------------- */

static struct sched_team *team_find(const struct sched *sched, uint64_t id)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->team && sched->tenants[i]->team->id == id)
                        return sched->tenants[i]->team;
        return NULL;
}

int team_join(struct sched *sched, struct sched_entity *tenant, uint64_t id)
{
        struct sched_team *team = id ? team_find(sched, id) : NULL;

        if (id && !team) {
                team = calloc(1, sizeof(*team));
                if (!team)
                        return -ENOMEM;
                team->id = id;
                team->kick_after = KICK_FIRST;
        }
        if (team)
                team->n_mates++;
        tenant->team = team;
        return 0;
}

void team_part(struct sched *sched, struct sched_entity *tenant)
{
        struct sched_team *team = tenant->team;

        tenant->team = NULL;
        if (!team || --team->n_mates)
                return;
        if (sched->team == team)
                sched->team = NULL;
        free(team);
}

int sched_team_serve(struct sched *sched, uint64_t id, pid_t server)
{
        LOCKED(&sched->lock);
        struct sched_team *team = team_find(sched, id);

        if (!team)
                return -ENOENT;
        team->server = server;
        if (sched->is_occupied && !sched->resident && !sched->team && server > 0 &&
            (uint32_t)server == sched->process) {
                sched->team = team; /* the meter saw it before we knew of it */
                team->started_at = sched->occupied_since;
                team->n_turns++;
        }
        return 0;
}

struct sched_team *team_of_server(const struct sched *sched, uint32_t process)
{
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_team *team = sched->tenants[i]->team;

                if (team && team->server > 0 && (uint32_t)team->server == process)
                        return team;
        }
        return NULL;
}

/* ---- its meter ------------------------------------------------------------------------------------------------- */

/* As kick_answered, tally.c. */
void team_on(struct sched_team *team, nsec at)
{
        if (!team)
                return;
        if (!team->kicked_at || at < team->kicked_at || at - team->kicked_at >= KICK_ANSWER)
                team->kick_after = KICK_FIRST;
        else if (team->kick_after < KICK_LAST)
                team->kick_after *= 2;
        team->started_at = at;
        team->n_turns++;
}

void team_off(struct sched_team *team, nsec from, nsec until, bool is_served)
{
        if (!team)
                return;
        team->closed += until - from;
        team->served += is_served ? until - from : 0;
        team->stopped_at = until;
}

static bool shows_work(const struct sched *sched, const struct sched_entity *tenant)
{
        const struct control_device *device = tenant->device;

        return device->n_pending || (device->launched_at && sched->state.metered_until - device->launched_at < WORKS);
}

static bool works(const struct sched *sched, const struct sched_entity *tenant)
{
        return !tenant->device->can_watch || shows_work(sched, tenant);
}

bool team_is_at_work(const struct sched *sched, const struct sched_entity *tenant)
{
        return sched->is_occupied && !sched->resident && tenant->team && sched->team == tenant->team &&
               works(sched, tenant);
}

/* Its context stays on the device while nobody else wants it, whether it works or not: no ring shows a kernel that goes
 * on. A kick ends its time unless it is at work, as it does of a tenant whose launches cannot be seen. */
struct sched_team *team_kick(const struct sched *sched, nsec now)
{
        struct sched_team *team = sched->team;

        if (!team || sched->resident || !sched->is_occupied || now - sched->occupied_since < team->kick_after ||
            now - team->kicked_at < team->kick_after)
                return NULL;
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->team == team && shows_work(sched, sched->tenants[i]))
                        return NULL;
        return team;
}

static void team_bill(struct sched *sched, struct sched_team *team, nsec served)
{
        nsec n = 0, each;
        bool is_any;

        for (size_t i = 0; i < sched->n_tenants; i++)
                n += sched->tenants[i]->team == team && works(sched, sched->tenants[i]);
        is_any = n;
        each = (served - team->billed) / (is_any ? n : (nsec)team->n_mates);
        if (each <= 0)
                return;
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_entity *tenant = sched->tenants[i];

                if (tenant->team != team || (is_any && !works(sched, tenant)))
                        continue;
                tenant->closed += each;
                team->billed += each;
        }
}

static bool is_first_of_team(const struct sched *sched, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (sched->tenants[k]->team == sched->tenants[i]->team)
                        return false;
        return sched->tenants[i]->team;
}

void teams_until(struct sched *sched)
{
        for (size_t i = 0; i < sched->n_tenants; i++) {
                struct sched_team *team = sched->tenants[i]->team;
                nsec open = 0;

                if (!is_first_of_team(sched, i))
                        continue;
                if (sched->is_occupied && sched->team == team && sched->state.metered_until > sched->occupied_since)
                        open = sched->state.metered_until - sched->occupied_since;
                if (team->closed + open > team->used)
                        team->used = team->closed + open;
                team_bill(sched, team, team->served + (sched->resident ? 0 : open));
        }
}

/* ---- what the policy sees ---------------------------------------------------------------------------------------- */

/* All clients of a server are one channel group; without one each has its own. */
static unsigned int groups_of(const struct sched *sched, const struct sched_team *team)
{
        unsigned int n = 0;

        for (size_t i = 0; i < sched->n_tenants && !team->server; i++)
                if (sched->tenants[i]->team == team)
                        n += sched->tenants[i]->channels.n_groups;
        return n ? n : 1;
}

void teams_view(struct sched *sched, const struct turns_view *view)
{
        size_t n = 0;

        for (size_t i = 0; i < sched->n_tenants; i++) {
                const struct sched_team *team = sched->tenants[i]->team;

                if (!is_first_of_team(sched, i))
                        continue;
                sched->team_meters[n++] =
                        (struct teams_meter){ .id = team->id,
                                              .used = team->used,
                                              .started_at = team->started_at,
                                              .stopped_at = team->stopped_at,
                                              .n_starts = team->n_turns,
                                              .is_resident = sched->is_occupied && sched->team == team,
                                              .n_groups = groups_of(sched, team) };
        }
        teams_fold(view, sched->team_meters, n, &sched->teams);
}
