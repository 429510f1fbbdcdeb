/* SPDX-License-Identifier: Apache-2.0 */
/* The list of replicas: each source lists its own, under names that no other source has. */
#include "route/agent/agent.h"

#include "base/cleanup.h"

#include <netdb.h>
#include <string.h>

/* The module takes numeric addresses only. Names are resolved when they are read: this blocks as long as the
 * resolver. */
static void resolve_address(struct agent *agent, struct fleet_replica *replica)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG }, *found = NULL;
        char host[SETTINGS_WORD], number[NI_MAXHOST], *colon;
        bool is_6;
        int r;

        (void)snprintf(replica->numeric, sizeof(replica->numeric), "%s", replica->address);
        if (!strncmp(replica->address, "unix:", 5) || *replica->address == '[')
                return;
        (void)snprintf(host, sizeof(host), "%s", replica->address);
        colon = strrchr(host, ':');
        *colon = '\0';
        r = getaddrinfo(host, NULL, &hints, &found);
        if (r == 0)
                r = getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof(number), NULL, 0, NI_NUMERICHOST);
        is_6 = r == 0 && found->ai_family == AF_INET6;
        if (found)
                freeaddrinfo(found);
        if (r != 0 || snprintf(replica->numeric, sizeof(replica->numeric), is_6 ? "[%s]:%s" : "%s:%s", number,
                               colon + 1) >= (int)sizeof(replica->numeric)) {
                agent_log(agent, "replica %s: %s: %s", replica->name, host, gai_strerror(r));
                replica->numeric[0] = '\0';
        }
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
                replica->health = FLEET_UNKNOWN;
                replica->has_models = replica->has_engine = replica->knows_sleep = false;
                replica->must_forget = replica->acknowledged != NULL;
                replica->probe_at = agent->now;
                (void)snprintf(replica->address, sizeof(replica->address), "%s", address);
                resolve_address(agent, replica);
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
        fleet_remove(&agent->fleet, replica);
}
