/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares and suspensions of the replicas, from Sublet daemons. A replica on several devices is as fast as its smallest
 * share. While a daemon does not answer, the last values stay: the router corrects a wrong share by learning, but a
 * share that disappeared would be a jump.
 */
#include "route/agent/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
        EVERY_MSEC = 500,
        WAKING_MSEC = 50,
        VOW_MSEC = 3000, /* the daemon believes it for 10 s */
};

static unsigned int share_of(const json_t *tenant)
{
        const json_t *devices = json_object_get(tenant, "devices");
        json_int_t least = json_integer_value(json_object_get(tenant, "share_permille"));

        for (size_t i = 0; i < json_array_size(devices); i++) {
                json_int_t share = json_integer_value(json_object_get(json_array_get(devices, i), "share_permille"));

                if (share > 0 && (!least || share < least))
                        least = share;
        }
        return least > 0 && least <= 1000 ? (unsigned int)least : 0;
}

static bool is_suspended(const json_t *tenant)
{
        const char *state = json_string_value(json_object_get(tenant, "state"));

        return json_is_true(json_object_get(tenant, "suspended")) || (state && !strcmp(state, "suspended"));
}

static const json_t *tenant_find(const json_t *tenants, const char *name)
{
        for (size_t i = 0; i < json_array_size(tenants); i++) {
                const json_t *tenant = json_array_get(tenants, i);
                const char *found = json_string_value(json_object_get(tenant, "tenant"));

                if (found && !strcmp(found, name))
                        return tenant;
        }
        return NULL;
}

static void update_replica(struct agent_daemon *daemon, struct fleet_replica *replica, const json_t *tenant)
{
        int me = (int)(daemon - daemon->agent->daemons);
        bool was_suspended = replica->is_suspended;

        if (!tenant) {
                if (replica->daemon == me)
                        replica->is_tenant = replica->is_suspended = false;
                return;
        }
        if (replica->is_tenant && replica->daemon != me)
                return; /* the first daemon that reported it counts */
        replica->is_tenant = true;
        replica->daemon = me;
        replica->share = share_of(tenant);
        replica->is_suspended = is_suspended(tenant);
        if (was_suspended && !replica->is_suspended) {
                replica->n_failures = 0;
                replica->probe_at = daemon->agent->now;
        }
}

static void on_tenants(void *context, const struct http_answer *answer)
{
        struct agent_daemon *daemon = context;
        struct agent *agent = daemon->agent;
        json_t *tenants = agent_json(answer);

        daemon->call = NULL;
        if (!json_is_array(tenants)) {
                if (!daemon->is_silent)
                        agent_log(agent, "the daemon at %s does not answer: shares stay as they were", daemon->base);
                daemon->is_silent = true;
                json_decref(tenants);
                return;
        }
        if (daemon->is_silent)
                agent_log(agent, "the daemon at %s answers again", daemon->base);
        daemon->is_silent = false;
        for (size_t i = 0; i < agent->fleet.n; i++)
                update_replica(daemon, agent->fleet.at[i], tenant_find(tenants, fleet_tenant(agent->fleet.at[i])));
        json_decref(tenants);
}

static bool is_any_waking(const struct agent *agent)
{
        for (size_t i = 0; i < agent->fleet.n; i++)
                if (agent->fleet.at[i]->sleep == FLEET_WAKING && agent->fleet.at[i]->config.wake.kind == WAKE_DAEMON)
                        return true;
        return false;
}

void tenants_set(struct agent *agent)
{
        const struct settings_list *list = &agent->settings->daemons;

        for (size_t i = 0; i < agent->n_daemons; i++) {
                http_pool_cancel(agent->http, agent->daemons[i].call);
                http_pool_cancel(agent->http, agent->daemons[i].vow);
        }
        agent->n_daemons = list->n;
        for (size_t i = 0; i < list->n; i++) {
                struct agent_daemon *daemon = &agent->daemons[i];
                bool is_dir = *list->at[i] == '/';
                int n;

                *daemon = (struct agent_daemon){ .agent = agent };
                n = snprintf(daemon->base, sizeof(daemon->base), "%s%s%s", is_dir ? "unix:" : "", list->at[i],
                             is_dir ? "/sublet.sock" : "");
                if (n < 0 || (size_t)n >= sizeof(daemon->base))
                        agent_log(agent, "daemons: %s is too long", list->at[i]);
        }
}

static void on_vow(void *context, const struct http_answer *answer)
{
        struct agent_daemon *daemon = context;

        (void)answer; /* a daemon before 0.2 knows no such call, and suspends nobody by itself */
        daemon->vow = NULL;
}

/* A daemon suspends tenants that are idle only if somebody has said that it wakes them. */
static void vow(struct agent_daemon *daemon)
{
        struct agent *agent = daemon->agent;
        int me = (int)(daemon - agent->daemons);
        json_t *names = json_array(), *body;
        char *text;

        daemon->vow_at = agent->now + VOW_MSEC * NSEC_PER_MSEC;
        for (size_t i = 0; i < agent->fleet.n; i++) {
                const struct fleet_replica *replica = agent->fleet.at[i];

                if (replica->config.wake.kind == WAKE_DAEMON && replica->is_tenant && replica->daemon == me)
                        (void)json_array_append_new(names, json_string(fleet_tenant(replica)));
        }
        if (!json_array_size(names)) {
                json_decref(names);
                return;
        }
        body = json_pack("{s:o}", "tenants", names);
        text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        if (text)
                (void)agent_call(agent, "POST", daemon->base, "/v1/wakers", text, 5 * NSEC_PER_SEC, on_vow, daemon,
                                 &daemon->vow);
        free(text);
        json_decref(body);
}

void tenants_tick(struct agent *agent)
{
        nsec every = (is_any_waking(agent) ? WAKING_MSEC : EVERY_MSEC) * NSEC_PER_MSEC;

        for (size_t i = 0; i < agent->n_daemons; i++) {
                struct agent_daemon *daemon = &agent->daemons[i];

                if (!daemon->vow && agent->now >= daemon->vow_at)
                        vow(daemon);
                if (!daemon->vow)
                        agent_due(agent, daemon->vow_at);
                if (daemon->call)
                        continue;
                if (daemon->at > agent->now + every)
                        daemon->at = agent->now + every;
                if (agent->now < daemon->at) {
                        agent_due(agent, daemon->at);
                        continue;
                }
                daemon->at = agent->now + every;
                (void)agent_call(agent, "GET", daemon->base, "/v1/tenants", NULL, 5 * NSEC_PER_SEC, on_tenants, daemon,
                                 &daemon->call);
        }
}

int tenants_order(struct agent *agent, struct fleet_replica *replica, bool is_suspend, agent_done *done)
{
        char path[HTTP_URL];

        if (!replica->is_tenant || (size_t)replica->daemon >= agent->n_daemons)
                return -ENOENT;
        (void)snprintf(path, sizeof(path), "/v1/tenants/%s", fleet_tenant(replica));
        return agent_call(agent, "PATCH", agent->daemons[replica->daemon].base, path,
                          is_suspend ? "{\"suspended\":true}" : "{\"suspended\":false}", 60 * NSEC_PER_SEC, done,
                          replica, &replica->order);
}
