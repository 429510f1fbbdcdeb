/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health, models and metrics of each replica, polled from the replica itself.
 *
 * A refused connection makes a replica unhealthy at once. Silence makes it unhealthy after health_failures probes, the
 * second of which follows the first at once: at most health_every + 2 x health_timeout after it began to hang. A
 * suspended replica is not polled: it could not answer.
 */
#include "route/agent/agent.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

enum {
        MODELS_EVERY_SECONDS = 30,
        FORGIVE_SECONDS_MAX = 30,
        TRIPS_SECONDS = 60, /* without a trip, the count of trips begins anew */
};

static const char *failure_text(const struct http_answer *answer, char *buffer, size_t size)
{
        if (answer->code == -ECONNREFUSED)
                return "the connection is refused";
        if (answer->code == -ETIMEDOUT)
                return "no answer in time";
        if (answer->code == -ECONNRESET)
                return "the connection broke";
        if (answer->code < 0)
                return answer->why; /* a certificate that is not believed, above all */
        (void)snprintf(buffer, size, "HTTP status %ld", answer->status);
        return buffer;
}

static void became_healthy(struct fleet_replica *replica)
{
        if (replica->was_gone && replica->health == FLEET_UNHEALTHY && replica->config.wake.kind != WAKE_DAEMON)
                replica->must_forget = true; /* another process answers now, with an empty cache */
        replica->was_gone = false;
        replica->health = FLEET_HEALTHY;
        replica->models_at = 0;
}

/* A repeated configuration makes it up again. */
static void let_back(struct fleet_replica *replica)
{
        replica->is_tripped = false;
        json_decref(replica->acknowledged);
        json_decref(replica->pushing); /* under way, perhaps without a word of its state */
        replica->acknowledged = replica->pushing = NULL;
}

/* The module took it out of use, and it answers again. The more often that happens, the longer it stays out. */
static void forgive(struct fleet_replica *replica, const struct http_answer *answer)
{
        struct agent *agent = replica->agent;
        nsec pause;

        if (!replica->is_tripped || answer->began < replica->tripped_at)
                return;
        if (replica->is_hearsay) { /* it answers this router: what others have against it is theirs */
                let_back(replica);
                return;
        }
        if (agent->now < replica->forgive_at)
                return;
        if (agent->now - replica->forgive_at > TRIPS_SECONDS * NSEC_PER_SEC)
                replica->n_trips = 0;
        pause = NSEC_PER_SEC << (replica->n_trips < 5 ? replica->n_trips : 5);
        if (pause > FORGIVE_SECONDS_MAX * NSEC_PER_SEC)
                pause = FORGIVE_SECONDS_MAX * NSEC_PER_SEC;
        replica->n_trips++;
        replica->forgive_at = agent->now + pause;
        let_back(replica);
        agent_log(agent, "replica %s: answers again after it had failed", replica->name);
}

static void mark_healthy(struct fleet_replica *replica, const struct http_answer *answer)
{
        enum fleet_health before = replica->health;

        replica->n_failures = 0;
        if (before != FLEET_HEALTHY)
                became_healthy(replica);
        if (before == FLEET_UNHEALTHY && replica->sleep == FLEET_AWAKE)
                agent_log(replica->agent, "replica %s: answers again", replica->name);
        forgive(replica, answer);
}

static void mark_unhealthy(struct fleet_replica *replica, const struct http_answer *answer)
{
        struct agent *agent = replica->agent;
        const struct settings *settings = agent->settings;
        char buffer[64];

        if (answer->code == -ECONNREFUSED) {
                replica->n_failures = settings->health_failures;
                replica->was_gone = true;
        } else if (++replica->n_failures < settings->health_failures) {
                replica->probe_at = agent->now;
        }
        if (replica->n_failures < settings->health_failures || replica->health == FLEET_UNHEALTHY)
                return;
        replica->health = FLEET_UNHEALTHY;
        replica->n_downs++;
        replica->has_engine = false;
        agent_log(agent, "replica %s: down: %s", replica->name, failure_text(answer, buffer, sizeof(buffer)));
}

static void on_health(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;

        replica->probe = NULL;
        if (replica->is_suspended) /* since the call began */
                return;
        if (http_is_good(answer))
                mark_healthy(replica, answer);
        else
                mark_unhealthy(replica, answer);
}

static void probe(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;
        const struct settings *settings = agent->settings;

        if (!strcmp(settings->health, "off")) {
                if (replica->health != FLEET_HEALTHY)
                        became_healthy(replica);
                return;
        }
        if (replica->probe || replica->is_suspended || !*replica->numeric)
                return;
        if (!agent_is_due(agent, replica->probe_at))
                return;
        replica->probe_at = agent->now + settings->health_every;
        (void)agent_call_replica(replica, "GET", settings->health, NULL, settings->health_timeout, on_health,
                                 &replica->probe);
}

/* ---- models -------------------------------------------------------------------------------------------------- */

static void on_models(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;
        json_t *root = agent_json(answer);
        const json_t *list = json_object_get(root, "data");

        replica->list_models = NULL;
        if (json_is_array(list) || answer->status == 404) {
                replica->has_models = true; /* an engine without a list serves every model */
                replica->found.n = 0;
        }
        for (size_t i = 0; i < json_array_size(list) && replica->found.n < SETTINGS_MODELS; i++) {
                const char *name = json_string_value(json_object_get(json_array_get(list, i), "id"));

                if (name && model_is_fine(name))
                        (void)snprintf(replica->found.at[replica->found.n++], MODEL_NAME, "%s", name);
        }
        if (!replica->has_models)
                replica->models_at = replica->agent->now + NSEC_PER_SEC / 2;
        json_decref(root);
}

static void poll_models(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;

        if (replica->config.models.n || replica->list_models || replica->health != FLEET_HEALTHY ||
            replica->is_suspended || replica->sleep != FLEET_AWAKE)
                return;
        if (!agent_is_due(agent, replica->models_at))
                return;
        replica->models_at = agent->now + MODELS_EVERY_SECONDS * NSEC_PER_SEC;
        (void)agent_call_replica(replica, "GET", "/v1/models", NULL, 5 * NSEC_PER_SEC, on_models,
                                 &replica->list_models);
}

/* ---- metrics ------------------------------------------------------------------------------------------------- */

static void on_metrics(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;
        struct scrape engine;

        replica->scrape = NULL;
        if (answer->code < 0 || answer->status != 200 ||
            scrape_parse(http_text(answer), answer->body.size, &engine) != SCRAPE_OK) {
                replica->has_engine = false;
                return;
        }
        if (replica->has_engine && scrape_is_restart(&replica->engine, &engine)) {
                replica->must_forget = true;
                agent_log(replica->agent, "replica %s: the engine was restarted", replica->name);
        }
        replica->engine = engine;
        replica->has_engine = true;
}

static void poll_metrics(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;

        if (!agent->settings->scrape || replica->scrape || replica->health != FLEET_HEALTHY || replica->is_suspended)
                return;
        if (!agent_is_due(agent, replica->scrape_at))
                return;
        replica->scrape_at = agent->now + agent->settings->scrape;
        (void)agent_call_replica(replica, "GET", "/metrics", NULL, agent->settings->scrape + NSEC_PER_SEC, on_metrics,
                                 &replica->scrape);
}

void health_tick(struct agent *agent)
{
        for (size_t i = 0; i < agent->fleet.n; i++) {
                struct fleet_replica *replica = agent->fleet.at[i];

                if (!fleet_is_used(replica))
                        continue;
                probe(replica);
                poll_models(replica);
                poll_metrics(replica);
        }
}
