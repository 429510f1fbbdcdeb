/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking and putting to sleep.
 *
 *      AWAKE ── idle for sleep_after ──► FALLING ── the module knows, none in flight, the engine obeyed ──► ASLEEP
 *        ▲                                  └── a request came in between ──► AWAKE
 *        └── it answers and does not sleep ── WAKING ◄── a request waits for it ── ASLEEP
 *
 * The module learns of the sleep before the engine does, so no request is lost. A replica that is suspended by its
 * daemon counts as asleep, whatever the reason; so does one that does not run but whose `wake` is a command.
 */
#include "route/agent/agent.h"

#include "base/when.h"

#include <string.h>
#include <sys/wait.h>

enum {
        POLL_MSEC = 20,        /* while something wakes */
        IDLE_POLL_MSEC = 1000, /* for an engine that another program put to sleep */
        RETRY_SECONDS = 5,     /* after a failed wake-up */
        PATIENCE = 10,         /* times wake_time, and at least LIMIT: then a wake-up has failed */
};

static const nsec LIMIT = 60 * NSEC_PER_SEC;

static void call_engine(struct fleet_replica *replica, const char *method, const char *path, agent_done *done)
{
        (void)agent_call_replica(replica, method, path, !strcmp(method, "POST") ? "{}" : NULL, LIMIT, done,
                                 &replica->order);
}

static void run_command(struct fleet_replica *replica, const char *command)
{
        char name[SETTINGS_NAME + 32], address[SETTINGS_WORD + 32], shell[] = "/bin/sh", option[] = "-c";
        char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        char *argv[] = { shell, option, (char *)(uintptr_t)command, NULL };
        char *env[] = { path, name, address, NULL };

        (void)snprintf(name, sizeof(name), "SUBLET_REPLICA=%s", replica->name);
        (void)snprintf(address, sizeof(address), "SUBLET_ADDRESS=%s", replica->address);
        if (process_spawn(argv, env, &replica->command) < 0)
                agent_log(replica->agent, "replica %s: its command could not be started", replica->name);
}

/* ---- waking -------------------------------------------------------------------------------------------------- */

static void wake_failed(struct fleet_replica *replica, const char *why)
{
        struct agent *agent = replica->agent;

        agent_log(agent, "replica %s: could not be woken: %s", replica->name, why);
        replica->sleep = replica->config.wake.kind == WAKE_ENGINE ? FLEET_ASLEEP : FLEET_AWAKE;
        replica->wake_again = agent->now + RETRY_SECONDS * NSEC_PER_SEC;
}

static void on_woken(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;
        char why[64];

        replica->order = NULL;
        if (http_is_good(answer)) {
                replica->is_ordered = true;
                return;
        }
        (void)snprintf(why, sizeof(why), answer->code < 0 ? "no answer" : "HTTP status %ld", answer->status);
        wake_failed(replica, why);
}

static void wake(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;

        agent_log(agent, "replica %s: waking, because a request waits for it", replica->name);
        replica->sleep = FLEET_WAKING;
        replica->sleep_since = agent->now;
        replica->is_ordered = false;
        switch (replica->config.wake.kind) {
        case WAKE_ENGINE:
                call_engine(replica, "POST", "/wake_up", on_woken);
                break;
        case WAKE_DAEMON:
                if (tenants_order(agent, replica, false, on_woken) < 0)
                        wake_failed(replica, "no daemon has it as a tenant");
                break;
        case WAKE_COMMAND:
                replica->is_ordered = true;
                run_command(replica, replica->config.wake.command);
                break;
        case WAKE_NONE:
                break;
        }
}

void sleep_wanted(struct agent *agent, struct fleet_replica *replica)
{
        if (replica->config.wake.kind == WAKE_NONE || replica->order || replica->command ||
            agent->now < replica->wake_again)
                return;
        if (replica->sleep == FLEET_AWAKE || replica->sleep == FLEET_ASLEEP)
                if (!strcmp(fleet_state(replica), "asleep"))
                        wake(replica);
}

static void mark_awake(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;
        char took[WHEN_TEXT];

        replica->wake_took = agent->now - replica->sleep_since;
        replica->sleep = FLEET_AWAKE;
        replica->idle_since = agent->now;
        if (replica->config.wake.kind == WAKE_ENGINE)
                replica->must_forget = true; /* its sleep drops the cache */
        agent_log(agent, "replica %s: awake after %s", replica->name, duration_format(replica->wake_took, took));
}

static void on_is_sleeping(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;
        bool is_sleeping = http_is_good(answer) && strstr(http_text(answer), "true");

        replica->order = NULL;
        if (answer->code < 0)
                return;
        replica->knows_sleep = true;
        if (replica->sleep == FLEET_AWAKE && is_sleeping) {
                replica->sleep = FLEET_ASLEEP;
                replica->sleep_since = replica->agent->now;
        } else if (replica->sleep == FLEET_ASLEEP && !is_sleeping) {
                replica->sleep = FLEET_AWAKE;
                replica->must_forget = true;
        } else if (replica->sleep == FLEET_WAKING && !is_sleeping) {
                mark_awake(replica);
        }
}

/* Whether a wake-up has succeeded, or taken too long. */
static void check_woken(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;
        nsec patience = PATIENCE * replica->config.wake_time;

        if (!replica->is_ordered)
                return;
        if (patience < LIMIT)
                patience = LIMIT;
        if (agent->now - replica->sleep_since > patience) {
                wake_failed(replica, "it does not answer yet");
                return;
        }
        if (replica->config.wake.kind == WAKE_DAEMON && !replica->is_suspended)
                mark_awake(replica);
        if (replica->config.wake.kind == WAKE_COMMAND && replica->health == FLEET_HEALTHY)
                mark_awake(replica);
        if (replica->config.wake.kind == WAKE_COMMAND && replica->health != FLEET_HEALTHY && !replica->probe &&
            replica->probe_at > agent->now + POLL_MSEC * NSEC_PER_MSEC)
                replica->probe_at = agent->now + POLL_MSEC * NSEC_PER_MSEC;
        agent_due(agent, agent->now + POLL_MSEC * NSEC_PER_MSEC);
}

/* The engine itself reports whether it sleeps. */
static void poll_sleep(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;
        nsec every = (replica->sleep == FLEET_WAKING ? POLL_MSEC : IDLE_POLL_MSEC) * NSEC_PER_MSEC;

        if (replica->config.wake.kind != WAKE_ENGINE || replica->order || replica->health != FLEET_HEALTHY ||
            replica->sleep == FLEET_FALLING || (replica->sleep == FLEET_WAKING && !replica->is_ordered))
                return;
        if (agent->now < replica->sleep_at) {
                agent_due(agent, replica->sleep_at < agent->now + every ? replica->sleep_at : agent->now + every);
                if (replica->sleep_at > agent->now + every)
                        replica->sleep_at = agent->now + every;
                return;
        }
        replica->sleep_at = agent->now + every;
        call_engine(replica, "GET", "/is_sleeping", on_is_sleeping);
}

/* ---- putting to sleep ---------------------------------------------------------------------------------------- */

static void fell_asleep(struct fleet_replica *replica)
{
        replica->sleep = FLEET_ASLEEP;
        replica->sleep_since = replica->agent->now;
        agent_log(replica->agent, "replica %s: put to sleep, because it had no requests", replica->name);
}

static void stay_awake(struct fleet_replica *replica)
{
        replica->sleep = FLEET_AWAKE;
        replica->idle_since = replica->agent->now;
}

static void on_put_to_sleep(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;

        replica->order = NULL;
        if (!http_is_good(answer)) {
                agent_log(replica->agent, "replica %s: could not be put to sleep", replica->name);
                stay_awake(replica);
                return;
        }
        fell_asleep(replica);
        if (replica->config.wake.kind == WAKE_DAEMON) {
                replica->is_suspended = true; /* until the daemon reports otherwise */
                replica->sleep = FLEET_AWAKE;
        }
}

/* The module sends nothing more to the replica. If a request came before that, the replica stays awake. */
static void on_idle_confirmed(void *context, const struct http_answer *answer)
{
        struct fleet_replica *replica = context;
        struct agent *agent = replica->agent;
        json_t *state = agent_json(answer);
        bool is_idle = state && !json_integer_value(json_object_get(state, "inflight")) &&
                       !json_integer_value(json_object_get(state, "wanted"));

        replica->order = NULL;
        json_decref(state);
        if (!is_idle)
                stay_awake(replica);
        else if (replica->config.wake.kind == WAKE_ENGINE)
                call_engine(replica, "POST", "/sleep?level=1", on_put_to_sleep);
        else if (replica->config.wake.kind == WAKE_COMMAND && *replica->config.sleep)
                run_command(replica, replica->config.sleep);
        else if (replica->config.wake.kind != WAKE_DAEMON || tenants_order(agent, replica, true, on_put_to_sleep) < 0)
                stay_awake(replica);
}

static void confirm_idle(struct fleet_replica *replica)
{
        const char *acknowledged = json_string_value(json_object_get(replica->acknowledged, "state"));
        char path[HTTP_URL];

        if (replica->order || replica->command || replica->push || !acknowledged || strcmp(acknowledged, "asleep"))
                return;
        (void)snprintf(path, sizeof(path), "/v1/replicas/%s", replica->name);
        (void)agent_call(replica->agent, "GET", replica->agent->api, path, NULL, LIMIT, on_idle_confirmed, replica,
                         &replica->order);
}

static void check_idle(struct fleet_replica *replica)
{
        struct agent *agent = replica->agent;
        nsec at = replica->idle_since + replica->config.sleep_after;

        if (!replica->config.sleep_after || !replica->idle_since || replica->order || replica->command ||
            replica->config.wake.kind == WAKE_NONE || strcmp(fleet_state(replica), "up"))
                return;
        if (!agent_is_due(agent, at))
                return;
        replica->sleep = FLEET_FALLING;
        agent_due(agent, agent->now);
}

void sleep_reaped(struct agent *agent, pid_t pid, int status)
{
        for (size_t i = 0; i < agent->fleet.n; i++) {
                struct fleet_replica *replica = agent->fleet.at[i];
                bool is_good_end = WIFEXITED(status) && WEXITSTATUS(status) == 0;

                if (replica->command != pid)
                        continue;
                replica->command = 0;
                if (replica->sleep == FLEET_WAKING && !is_good_end)
                        wake_failed(replica, "its command failed");
                if (replica->sleep != FLEET_FALLING)
                        continue;
                if (!is_good_end) {
                        stay_awake(replica);
                        continue;
                }
                fell_asleep(replica);
                replica->health = FLEET_UNHEALTHY;
                replica->was_gone = true;
        }
}

/* The daemon has suspended it while a request was on its way to it, or at work: nobody else knows of that one. */
static bool is_caught(const struct fleet_replica *replica)
{
        return replica->config.wake.kind == WAKE_DAEMON && replica->is_suspended && replica->inflight > 0;
}

void sleep_tick(struct agent *agent)
{
        for (size_t i = 0; i < agent->fleet.n; i++) {
                struct fleet_replica *replica = agent->fleet.at[i];

                if (!fleet_is_used(replica))
                        continue;
                poll_sleep(replica);
                if (replica->sleep == FLEET_AWAKE)
                        check_idle(replica);
                if (replica->sleep == FLEET_WAKING)
                        check_woken(replica);
                if (replica->sleep == FLEET_FALLING)
                        confirm_idle(replica);
                if (replica->wanted || is_caught(replica))
                        sleep_wanted(agent, replica);
        }
}
