/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses behind the replicas' names. The module takes numeric ones only. A name is resolved without blocking,
 * and again every few seconds: how long an answer is good is the business of the resolver and its cache. While a name
 * does not resolve, its last address stands.
 */
#include "route/agent/agent.h"

#include "base/cleanup.h"

#include <netdb.h>
#include <string.h>

enum {
        POLL_MSEC = 20,
};

static const nsec AGAIN = 5 * NSEC_PER_SEC, AFTER_FAILURE = NSEC_PER_SEC;

/* glibc's threads write here until the lookup is over; one that is dropped before is left to them. */
struct lookup {
        struct gaicb call;
        struct gaicb *list[1];
        struct addrinfo hints;
        char host[SETTINGS_WORD];
};

/* False: there is no name to resolve. */
static bool split(const struct fleet_replica *replica, char host[SETTINGS_WORD], const char **ret_port)
{
        const char *colon = strrchr(replica->address, ':');

        *ret_port = colon ? colon + 1 : "";
        return route_address_host(replica->address, host);
}

static int write_number(const struct addrinfo *found, const char *port, char ret[SETTINGS_WORD])
{
        char number[NI_MAXHOST];
        int n;

        if (getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof(number), NULL, 0, NI_NUMERICHOST) != 0)
                return -1;
        n = snprintf(ret, SETTINGS_WORD, found->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", number, port);
        return n > 0 && n < SETTINGS_WORD ? 0 : -1;
}

/* The address that it has, if that is still one of the name's; else the first. */
static void take(struct agent *agent, struct fleet_replica *replica, const struct addrinfo *found)
{
        char host[SETTINGS_WORD], text[SETTINGS_WORD], first[SETTINGS_WORD] = "";
        const char *port;

        if (!split(replica, host, &port))
                return;
        for (const struct addrinfo *at = found; at; at = at->ai_next) {
                if (write_number(at, port, text) < 0)
                        continue;
                if (!strcmp(text, replica->numeric))
                        return;
                if (!*first)
                        memcpy(first, text, sizeof(first));
        }
        if (!*first)
                return;
        if (*replica->numeric) {
                agent_log(agent, "replica %s: %s is %s now", replica->name, host, first);
                agent_moved(agent, replica);
        }
        memcpy(replica->numeric, first, sizeof(first));
}

static void finish(struct agent *agent, struct fleet_replica *replica, int code)
{
        struct lookup *lookup = replica->lookup;

        replica->lookup = NULL;
        replica->lookup_at = agent->now + (code == 0 ? AGAIN : AFTER_FAILURE);
        if (code == 0)
                take(agent, replica, lookup->call.ar_result);
        else if (!replica->is_unresolved)
                agent_log(agent, "replica %s: %s: %s", replica->name, lookup->host, gai_strerror(code));
        replica->is_unresolved = code != 0;
        if (lookup->call.ar_result)
                freeaddrinfo(lookup->call.ar_result);
        free(lookup);
}

static void begin(struct agent *agent, struct fleet_replica *replica)
{
        struct lookup *lookup = calloc(1, sizeof(*lookup));
        const char *port;
        char host[SETTINGS_WORD];

        replica->lookup_at = agent->now + AFTER_FAILURE;
        if (!lookup || !split(replica, host, &port)) {
                free(lookup);
                return;
        }
        memcpy(lookup->host, host, sizeof(host));
        lookup->hints = (struct addrinfo){ .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
        lookup->call.ar_name = lookup->host;
        lookup->call.ar_request = &lookup->hints;
        lookup->list[0] = &lookup->call;
        if (getaddrinfo_a(GAI_NOWAIT, lookup->list, 1, NULL) == 0)
                replica->lookup = lookup;
        else
                free(lookup);
}

void names_drop(struct fleet_replica *replica)
{
        struct lookup *lookup = replica->lookup;

        replica->lookup = NULL;
        if (!lookup || (gai_cancel(&lookup->call) == EAI_NOTCANCELED && gai_error(&lookup->call) == EAI_INPROGRESS))
                return; /* glibc still writes there */
        if (gai_error(&lookup->call) == 0 && lookup->call.ar_result)
                freeaddrinfo(lookup->call.ar_result);
        free(lookup);
}

void names_set(struct agent *agent, struct fleet_replica *replica)
{
        char host[SETTINGS_WORD];
        const char *port;

        names_drop(replica);
        replica->is_unresolved = false;
        replica->lookup_at = agent->now;
        replica->numeric[0] = '\0';
        if (!split(replica, host, &port))
                (void)snprintf(replica->numeric, sizeof(replica->numeric), "%s", replica->address);
}

void names_tick(struct agent *agent)
{
        char host[SETTINGS_WORD];
        const char *port;

        for (size_t i = 0; i < agent->fleet.n; i++) {
                struct fleet_replica *replica = agent->fleet.at[i];
                int code = replica->lookup ? gai_error(&replica->lookup->call) : 0;

                if (replica->lookup && code != EAI_INPROGRESS)
                        finish(agent, replica, code);
                else if (replica->lookup)
                        agent_due(agent, agent->now + POLL_MSEC * NSEC_PER_MSEC);
                else if (split(replica, host, &port) && agent_is_due(agent, replica->lookup_at))
                        begin(agent, replica);
                if (replica->lookup)
                        agent_due(agent, agent->now + POLL_MSEC * NSEC_PER_MSEC);
        }
}
