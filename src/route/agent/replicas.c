/* SPDX-License-Identifier: Apache-2.0 */
/* The list of replicas: each source lists its own, under names that no other source has. */
#include "route/agent/agent.h"

#include "base/cleanup.h"

#include <string.h>

void agent_moved(struct agent *agent, struct fleet_replica *replica)
{
        replica->health = FLEET_UNKNOWN;
        replica->has_models = replica->has_engine = replica->knows_sleep = false;
        replica->must_forget = replica->acknowledged != NULL;
        replica->probe_at = agent->now;
}

struct fleet_replica *agent_replica(struct agent *agent, const char *name, const char *address, int origin,
                                    const struct replica_settings *config)
{
        struct fleet_replica *replica = fleet_find(&agent->fleet, name);

        if (!replica) {
                replica = fleet_add(&agent->fleet, name);
                if (!replica) {
                        agent_log(agent, "replica %s: there are %d replicas already", name, FLEET_MAX);
                        return NULL;
                }
                replica->agent = agent;
        }
        if (replica->is_listed && replica->origin != origin)
                return NULL; /* another source had the name first */
        if (strcmp(replica->address, address)) {
                agent_moved(agent, replica);
                (void)snprintf(replica->address, sizeof(replica->address), "%s", address);
                names_set(agent, replica);
        }
        replica->origin = origin;
        replica->config = *config;
        replica->is_listed = true;
        return replica;
}

void agent_unlist(struct agent *agent, int origin)
{
        for (size_t i = 0; i < agent->fleet.n; i++)
                if (agent->fleet.at[i]->origin == origin)
                        agent->fleet.at[i]->is_listed = false;
}

void agent_forget(struct agent *agent, struct fleet_replica *replica)
{
        struct http_pool_call *calls[] = { replica->probe, replica->scrape, replica->list_models, replica->push,
                                           replica->order };

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                http_pool_cancel(agent->http, calls[i]);
        names_drop(replica);
        fleet_remove(&agent->fleet, replica);
}
