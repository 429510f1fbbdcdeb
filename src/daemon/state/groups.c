/* SPDX-License-Identifier: Apache-2.0 */
/* Which tenants belong together: those of a job come on and go off at once (gangs), those of a group share an MPS
 * server (teams). */
#include "daemon/state/tenants.h"

#include <string.h>

static bool is_same_job(const struct tenant *a, const struct tenant *b)
{
        return a->lease.owner == b->lease.owner && !strcmp(a->lease.job, b->lease.job) &&
               !strcmp(a->lease.container.namespace, b->lease.container.namespace);
}

/* Those of a job that are there already have its number, whoever of them came first. */
uint64_t tenants_gang(const struct tenants *tenants, const struct tenant *tenant)
{
        unsigned int n = 0;

        for (const struct tenant *t = tenants->first; t && tenant->lease.job[0]; t = t->next)
                if (t != tenant && t->gang && is_same_job(t, tenant))
                        return t->gang;
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                n += tenant->lease.devices[i].is_granted;
        return n > 1 || tenant->lease.job[0] ? tenant->lease.id : 0;
}

/* Numbers come round. */
void tenants_spend_team(struct tenants *tenants, uint32_t team)
{
        if (team && team - tenants->last_team <= INT32_MAX)
                tenants->last_team = team;
}

static bool has_team(const struct tenants *tenants, uint32_t team)
{
        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t->lease.team == team)
                        return true;
        return false;
}

/* Who shares a server (M4 of mps.h). */
static bool is_same_group(const struct message_lease *a, const struct message_lease *b)
{
        return a->owner == b->owner && !strcmp(a->group, b->group) &&
               !strcmp(a->container.namespace, b->container.namespace) && !a->container.id[0] == !b->container.id[0];
}

/* 0 is none, and a number that came round may be in use still. */
uint32_t tenants_team(const struct tenants *tenants, const struct message_lease *lease)
{
        uint32_t team = tenants->last_team;

        if (!lease->group[0])
                return 0;
        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (is_same_group(&t->lease, lease))
                        return t->lease.team;
        do
                team++;
        while (!team || has_team(tenants, team));
        return team;
}
