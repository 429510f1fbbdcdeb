/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses behind the replicas' names. The module takes numeric ones only. A name is resolved without blocking,
 * and again every few seconds: how long an answer is good is the business of the resolver and its cache. While a name
 * does not resolve, its last addresses stand.
 *
 * A name with several addresses, as a headless service of Kubernetes has, is several replicas: a member for each
 * address, named NAME:ADDRESS, listed as long as the address is there. The name itself is no replica then. So routers
 * with the same file call the same process by the same name, in whatever order their resolvers answer. Only addresses
 * of one family count: a process that has one of each is one process.
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

/* The family that counted before, if there is one of it; else that of the first. */
static int family_of(const struct fleet_replica *replica, const struct addrinfo *found)
{
        for (const struct addrinfo *at = found; at; at = at->ai_next)
                if (at->ai_family == replica->family)
                        return at->ai_family;
        return found ? found->ai_family : AF_UNSPEC;
}

/* Each address of the family once. */
static size_t collect(const struct addrinfo *found, int family, const char *port, char (*ret)[SETTINGS_WORD])
{
        size_t n = 0, i;

        for (const struct addrinfo *at = found; at && n < FLEET_MAX; at = at->ai_next) {
                if (at->ai_family != family || write_number(at, port, ret[n]) < 0)
                        continue;
                for (i = 0; strcmp(ret[i], ret[n]); i++)
                        ;
                n += i == n;
        }
        return n;
}

/* ---- members -------------------------------------------------------------------------------------------------- */

/* NAME:ADDRESS; or the address with its port, where that is too long for a name. */
static void name_member(const struct fleet_replica *of, const char *numeric, char ret[SETTINGS_NAME])
{
        const char *colon = strrchr(numeric, ':');
        int bracket = *numeric == '[', size = (int)(colon - numeric) - 2 * bracket;
        int n = snprintf(ret, SETTINGS_NAME, "%s:%.*s", of->name, size, numeric + bracket);

        if (n < 0 || n >= SETTINGS_NAME)
                (void)snprintf(ret, SETTINGS_NAME, "%.*s.%s", size, numeric + bracket, colon + 1);
}

/* The name's settings; its certificate is the name's, too. */
static struct replica_settings member_config(const struct fleet_replica *of)
{
        struct replica_settings config = of->config;

        (void)fleet_server_name(of, config.server_name);
        return config;
}

static void unlist_members(struct agent *agent, const struct fleet_replica *of)
{
        for (size_t i = 0; i < agent->fleet.n; i++)
                if (!strcmp(agent->fleet.at[i]->member_of, of->name))
                        agent->fleet.at[i]->is_listed = false;
}

static void list_members(struct agent *agent, struct fleet_replica *of, char (*addresses)[SETTINGS_WORD], size_t n)
{
        struct replica_settings config = member_config(of);
        char name[SETTINGS_NAME];
        bool is_short = false;

        unlist_members(agent, of);
        for (size_t i = 0; i < n; i++) {
                struct fleet_replica *member;

                name_member(of, addresses[i], name);
                if (!fleet_find(&agent->fleet, name) && agent->fleet.n == FLEET_MAX) {
                        is_short = true;
                        continue;
                }
                member = agent_replica(agent, name, addresses[i], FLEET_NAME, &config);
                if (member)
                        memcpy(member->member_of, of->name, sizeof(of->name));
        }
        if (is_short && !of->is_short)
                agent_log(agent, "replica %s: it has %zu addresses, and there are %d replicas already", of->name, n,
                          FLEET_MAX);
        of->is_short = is_short;
}

void names_list(struct agent *agent)
{
        for (size_t i = 0; i < agent->fleet.n; i++) {
                struct fleet_replica *member = agent->fleet.at[i];
                const struct fleet_replica *of =
                        *member->member_of ? fleet_find(&agent->fleet, member->member_of) : NULL;

                if (!*member->member_of || member->origin != FLEET_NAME)
                        continue;
                if (of && of->is_listed && of->is_several)
                        member->config = member_config(of);
                else
                        member->is_listed = false;
        }
}

/* ---- lookups -------------------------------------------------------------------------------------------------- */

static void take_one(struct agent *agent, struct fleet_replica *replica, const char *host, const char *address)
{
        bool was_several = replica->is_several;

        replica->is_several = false;
        if (was_several)
                unlist_members(agent, replica);
        if (!strcmp(address, replica->numeric))
                return;
        if (was_several || *replica->numeric) {
                agent_log(agent, "replica %s: %s is %s now", replica->name, host, address);
                agent_moved(agent, replica);
        }
        (void)snprintf(replica->numeric, sizeof(replica->numeric), "%s", address);
}

static void take(struct agent *agent, struct fleet_replica *replica, const struct addrinfo *found)
{
        char host[SETTINGS_WORD], addresses[FLEET_MAX][SETTINGS_WORD];
        const char *port;
        size_t n;

        if (!split(replica, host, &port))
                return;
        replica->family = family_of(replica, found);
        n = collect(found, replica->family, port, addresses);
        if (n == 1)
                take_one(agent, replica, host, addresses[0]);
        if (n < 2)
                return;
        if (!replica->is_several)
                agent_log(agent, "replica %s: %s has %zu addresses: each is a replica of its own", replica->name, host,
                          n);
        replica->is_several = true;
        replica->numeric[0] = '\0';
        list_members(agent, replica, addresses, n);
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
        replica->is_unresolved = replica->is_several = replica->is_short = false;
        replica->family = AF_UNSPEC;
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
