/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the module in step, through its API (docs/router-api.md). A replica's configuration is sent when it differs
 * from the one that the module acknowledged last; a new epoch means that it has none.
 *
 * There is one call at a time per replica. One that was given up may be taken all the same, also after the next one:
 * so it is not known any more what the module has, all of it is said anew, and each call has a number by which the
 * module refuses those that come late.
 */
#include "route/agent/agent.h"

#include <errno.h>
#include <string.h>

enum {
        WAIT_MSEC = 2000,
        RETRY_MSEC = 100,
        REFUSED_SECONDS = 5, /* before a refused configuration is sent again */
        LATE = 412,
};

static const nsec LIMIT = 5 * NSEC_PER_SEC;

/* Numbers grow from one agent to the next, too: they are times. See go_on_from(), where those are no longer. */
void sync_change(struct agent *agent, const char *method, const char *path, const char *body, nsec limit,
                 agent_done *done, void *context, struct http_pool_call **slot)
{
        nsec now = clock_now();
        char full[HTTP_URL + 128];

        agent->order = now > agent->order ? now : agent->order + 1;
        (void)snprintf(full, sizeof(full), "%s?epoch=%s&order=%lld", path, agent->epoch, (long long)agent->order);
        (void)agent_call(agent, method, agent->api, full, body, limit, done, context, slot);
}

/* It may have come, or will come; or it came to a worker that knew better. */
static bool is_lost(const struct http_answer *answer)
{
        return answer->code < 0 || answer->status == LATE;
}

/* ---- the module's state ---------------------------------------------------------------------- */

static long long number(const json_t *object, const char *name)
{
        return json_integer_value(json_object_get(object, name));
}

static void read_replica(struct agent *agent, struct fleet_replica *replica, const json_t *entry)
{
        const char *down_for = json_string_value(json_object_get(entry, "down_for"));
        bool is_hearsay = down_for && !strcmp(down_for, "hearsay");
        bool is_tripped = is_hearsay || (down_for && !strcmp(down_for, "failures"));
        long long sent = number(entry, "sent");

        replica->is_there = true;
        replica->inflight = number(entry, "inflight");
        replica->wanted = number(entry, "wanted");
        if (sent != replica->sent || replica->inflight || replica->wanted || !replica->idle_since)
                replica->idle_since = agent->now;
        replica->sent = sent;
        if (is_tripped && !replica->is_tripped) {
                if (is_hearsay)
                        agent_log(agent, "replica %s: another router took it out of use", replica->name);
                else
                        agent_log(agent, "replica %s: taken out of use by the module: %lld failures in a row",
                                  replica->name, number(entry, "failures"));
                replica->tripped_at = replica->probe_at = agent->now;
        }
        replica->is_tripped = is_tripped;
        replica->is_hearsay = is_hearsay;
        if (replica->wanted)
                sleep_wanted(agent, replica);
}

static void on_gone(void *context, const struct http_answer *answer)
{
        (void)context;
        (void)answer;
}

/* It is not known yet whether it is one of ours: a source was not read since this agent began. */
static bool may_be_ours(const struct agent *agent, const char *name)
{
        if (!kube_is_listed(agent))
                return true;
        for (size_t i = 0; i < agent->fleet.n; i++) {
                const struct fleet_replica *of = agent->fleet.at[i];
                size_t n = strlen(of->name);

                if (!*of->numeric && fleet_is_used(of) && !strncmp(name, of->name, n) && name[n] == ':')
                        return true;
        }
        return false;
}

static void read_replicas(struct agent *agent, const json_t *list)
{
        char path[HTTP_URL];

        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *entry = json_array_get(list, i);
                const char *name = json_string_value(json_object_get(entry, "name"));
                struct fleet_replica *replica = name ? fleet_find(&agent->fleet, name) : NULL;

                if (replica && replica->is_several) {
                        replica->is_there = true; /* it is to go: its members are what counts */
                } else if (replica) {
                        read_replica(agent, replica, entry);
                } else if (name && route_settings_is_name(name) &&
                           !may_be_ours(agent, name)) { /* left by an earlier agent */
                        (void)snprintf(path, sizeof(path), "/v1/replicas/%s", name);
                        sync_change(agent, "DELETE", path, NULL, LIMIT, on_gone, agent, NULL);
                }
        }
}

static void begin_epoch(struct agent *agent, const char *epoch)
{
        (void)snprintf(agent->epoch, sizeof(agent->epoch), "%s", epoch);
        agent->knows_settings = false;
        for (size_t i = 0; i < agent->fleet.n; i++) {
                struct fleet_replica *replica = agent->fleet.at[i];

                json_decref(replica->acknowledged);
                json_decref(replica->pushing); /* under way, to a worker of the old one perhaps */
                replica->acknowledged = replica->pushing = NULL;
                replica->must_forget = replica->is_there = false;
        }
        agent->is_complete = false;
}

/*
 * An agent before this one had another clock: it was in another time namespace, or this machine went back to an earlier
 * state of its own. The module would take all calls of this one for late ones.
 */
static void go_on_from(struct agent *agent, nsec order)
{
        nsec ahead = order - (agent->order > clock_now() ? agent->order : clock_now());

        if (ahead <= 0)
                return;
        agent->order = order;
        agent_log(agent,
                  "the module was last told something by an agent whose clock was %lld s ahead of this one's: going on "
                  "after that; end the other one if it still runs",
                  (long long)((ahead + NSEC_PER_SEC - 1) / NSEC_PER_SEC));
}

static void on_state(void *context, const struct http_answer *answer)
{
        struct agent *agent = context;
        json_t *root = agent_json(answer);
        const char *epoch = json_string_value(json_object_get(root, "epoch"));

        agent->state = NULL;
        agent->has_state = epoch != NULL;
        if (!epoch) {
                agent->state_at = agent->now + RETRY_MSEC * NSEC_PER_MSEC;
                agent->serial = -1;
                return;
        }
        agent->serial = number(root, "serial");
        if (strcmp(epoch, agent->epoch))
                begin_epoch(agent, epoch);
        go_on_from(agent, number(root, "order"));
        read_replicas(agent, json_object_get(root, "replicas"));
        json_decref(root);
}

static void poll_state(struct agent *agent)
{
        char path[HTTP_URL];

        if (agent->state)
                return;
        if (!agent_is_due(agent, agent->state_at))
                return;
        if (agent->has_state)
                (void)snprintf(path, sizeof(path), "/v1/wait?serial=%lld&timeout_ms=%d", agent->serial, WAIT_MSEC);
        else
                (void)snprintf(path, sizeof(path), "/v1/state");
        (void)agent_call(agent, "GET", agent->api, path, NULL, LIMIT, on_state, agent, &agent->state);
}

/* ---- what is sent to it ----------------------------------------------------------------------------------------- */

/* Whether the module has the former or what was said is not known: a configuration that equals none. A state that both
 * have is known. */
static void doubt(struct fleet_replica *replica, const json_t *said)
{
        json_t *state = json_object_get(replica->acknowledged, "state"), *known;

        if (!replica->acknowledged)
                return;
        known = json_equal(state, json_object_get(said, "state")) ? json_pack("{sO}", "state", state) : json_object();
        json_decref(replica->acknowledged);
        replica->acknowledged = known;
}

static void on_pushed(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;
        struct agent *agent = replica->agent;
        json_t *pushing = replica->pushing;

        replica->push = NULL;
        replica->pushing = NULL;
        if (http_is_good(answer)) {
                json_decref(replica->acknowledged);
                replica->acknowledged = pushing;
                return;
        }
        if (is_lost(answer))
                doubt(replica, answer->status == LATE ? NULL : pushing); /* late: somebody else has said something */
        json_decref(pushing);
        replica->push_at = agent->now + (is_lost(answer) ? RETRY_MSEC * NSEC_PER_MSEC : REFUSED_SECONDS * NSEC_PER_SEC);
        if (!is_lost(answer))
                agent_log(agent, "replica %s: the module refuses its configuration: %s", replica->name,
                          http_text(answer));
}

static void on_forgotten(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;

        replica->push = NULL;
        if (http_is_good(answer)) {
                replica->must_forget = false;
        } else if (answer->status == 404) { /* removed, by a call that was given up perhaps: nothing is known of it */
                replica->must_forget = replica->is_there = false;
                json_decref(replica->acknowledged);
                replica->acknowledged = NULL;
        } else {
                replica->push_at = replica->agent->now + RETRY_MSEC * NSEC_PER_MSEC;
        }
}

static void on_removed(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;

        replica->push = NULL;
        if (!http_is_good(answer) && answer->status != 404) {
                doubt(replica, NULL); /* it may be listed again before this is known */
                replica->push_at = replica->agent->now + NSEC_PER_SEC;
                return;
        }
        json_decref(replica->acknowledged);
        replica->acknowledged = NULL;
        replica->is_there = false;
}

/* Logs what changed. */
static void log_change(const struct fleet_replica *replica, const json_t *now)
{
        const char *was = json_string_value(json_object_get(replica->acknowledged, "state"));
        const char *state = json_string_value(json_object_get(now, "state")), *why = fleet_why(replica);
        bool is_new = !replica->acknowledged && !strcmp(state, "up");

        if ((was && strcmp(was, state)) || is_new)
                agent_log(replica->agent, "replica %s: %s%s%s%s", replica->name, state, *why ? " (" : "", why,
                          *why ? ")" : "");
        else if (was && !json_equal(json_object_get(replica->acknowledged, "rate"), json_object_get(now, "rate")))
                agent_log(replica->agent, "replica %s: %lld tokens per second with its present share", replica->name,
                          number(now, "rate"));
}

/*
 * The body that says so. Being up is said only when it is news: it lets a replica back that the module has put out,
 * which is not what a new figure of its engine means.
 */
static char *body_of(const struct fleet_replica *replica, json_t *now)
{
        json_t *body = json_copy(now);
        char *text;

        if (json_equal(json_object_get(replica->acknowledged, "state"), json_object_get(now, "state")))
                (void)json_object_del(body, "state");
        text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        json_decref(body);
        return text;
}

/* What an earlier agent said of a replica stands until this one knows better. */
static void put_replica(struct fleet_replica *replica, const char *path)
{
        json_t *now = NULL;
        char *text;

        if (replica->is_there && !replica->acknowledged && fleet_is_unsure(replica))
                return;
        now = fleet_config(replica);
        if (!now || (replica->acknowledged && json_equal(replica->acknowledged, now))) {
                json_decref(now);
                return;
        }
        text = body_of(replica, now);
        if (!text) {
                json_decref(now);
                return;
        }
        log_change(replica, now);
        replica->pushing = now;
        sync_change(replica->agent, "PUT", path, text, LIMIT, on_pushed, replica, &replica->push);
        free(text);
}

static void push(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;
        char path[HTTP_URL];

        if (replica->push)
                return;
        if (!agent_is_due(agent, replica->push_at))
                return;
        (void)snprintf(path, sizeof(path), "/v1/replicas/%s%s", replica->name,
                       replica->is_listed && replica->acknowledged && replica->must_forget ? "/forget" : "");
        if (!fleet_is_used(replica) && (replica->acknowledged || (replica->is_several && replica->is_there))) {
                sync_change(agent, "DELETE", path, NULL, LIMIT, on_removed, replica, &replica->push);
        } else if (!replica->is_listed) {
                agent_log(agent, "replica %s: removed", replica->name);
                agent_forget(agent, replica);
        } else if (replica->acknowledged && replica->must_forget) {
                sync_change(agent, "POST", path, "{}", LIMIT, on_forgotten, replica, &replica->push);
        } else if (*replica->numeric) {
                put_replica(replica, path);
        }
}

static void on_settings(void *context, const struct http_answer *answer)
{
        struct agent *agent = context;

        agent->setting = NULL;
        if (is_lost(answer)) {
                agent->knows_settings = false;
                agent->settings_at = agent->now + RETRY_MSEC * NSEC_PER_MSEC;
        } else if (!http_is_good(answer)) {
                agent_log(agent, "the module refuses the settings: %s", http_text(answer));
        }
}

/* All replicas are in the module: a model that none serves does not exist. */
static bool is_complete(const struct agent *agent)
{
        for (size_t i = 0; i < agent->fleet.n; i++) {
                const struct fleet_replica *replica = agent->fleet.at[i];

                if (fleet_is_used(replica) && !replica->acknowledged && !replica->is_there)
                        return false;
        }
        return kube_is_listed(agent);
}

/* Models of services that may have no endpoints: they exist all the same, and requests for them wait. */
static json_t *expected_models(const struct settings *settings)
{
        json_t *list = json_array();

        for (size_t i = 0; i < settings->n_services; i++) {
                const struct settings_models *models = &settings->services[i].config.models;

                for (size_t k = 0; k < models->n; k++)
                        (void)json_array_append_new(list, json_string(models->at[k]));
        }
        return list;
}

static void push_settings(struct agent *agent)
{
        const struct settings *settings = agent->settings;
        json_t *body;
        char *text;

        if (!agent->is_complete && is_complete(agent)) {
                agent->is_complete = true;
                agent->knows_settings = false;
        }
        if (agent->knows_settings || agent->setting || !agent_is_due(agent, agent->settings_at))
                return;
        body = json_pack("{ss sI sI sI sI sI sI sI}", "policy", settings->policy, "queue", (json_int_t)settings->queue,
                         "hold_ms", (json_int_t)(settings->hold / NSEC_PER_MSEC), "retry_permille",
                         (json_int_t)settings->retries, "breaker_failures", (json_int_t)settings->breaker, "breaker_ms",
                         (json_int_t)(settings->breaker_time / NSEC_PER_MSEC), "first_byte_ms",
                         (json_int_t)(settings->first_byte / NSEC_PER_MSEC), "body_ms",
                         (json_int_t)(settings->body_time / NSEC_PER_MSEC));
        (void)json_object_set_new(body, "models", expected_models(settings));
        if (agent->is_complete)
                (void)json_object_set_new(body, "complete", json_true());
        text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        agent->knows_settings = text != NULL; /* unless this fails, or they change meanwhile */
        if (text)
                sync_change(agent, "PUT", "/v1/settings", text, LIMIT, on_settings, agent, &agent->setting);
        free(text);
        json_decref(body);
}

void sync_tick(struct agent *agent)
{
        poll_state(agent);
        if (!agent->has_state)
                return;
        for (size_t i = agent->fleet.n; i-- > 0;)
                push(agent->fleet.at[i]);
        push_settings(agent);
}
