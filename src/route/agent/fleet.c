/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/fleet.h"

#include "base/cleanup.h"
#include "route/pick.h"

#include <string.h>

enum {
        WHOLE = 1000, /* permille */
        KV_STEP = 5,  /* permille: about a request; the module takes what is in flight at a report for its cause */
};

struct fleet_replica *fleet_find(const struct fleet *fleet, const char *name)
{
        for (size_t i = 0; i < fleet->n; i++)
                if (!strcmp(fleet->at[i]->name, name))
                        return fleet->at[i];
        return NULL;
}

struct fleet_replica *fleet_add(struct fleet *fleet, const char *name)
{
        struct fleet_replica *replica = fleet->n < FLEET_MAX ? calloc(1, sizeof(*replica)) : NULL;

        if (!replica)
                return NULL;
        (void)snprintf(replica->name, sizeof(replica->name), "%s", name);
        replica->is_ready = true;
        fleet->at[fleet->n++] = replica;
        return replica;
}

void fleet_remove(struct fleet *fleet, struct fleet_replica *replica)
{
        for (size_t i = 0; i < fleet->n; i++)
                if (fleet->at[i] == replica) {
                        fleet->at[i] = fleet->at[--fleet->n];
                        break;
                }
        json_decref(replica->acknowledged);
        json_decref(replica->pushing);
        free(replica);
}

static bool knows_models(const struct fleet_replica *replica)
{
        return replica->config.models.n > 0 || replica->has_models;
}

struct verdict {
        bool holds;
        enum pick_state state;
        const char *why;
        bool is_unsure; /* it was not asked yet */
};

/* The first row that holds. */
static struct verdict state_of(const struct fleet_replica *replica)
{
        const struct verdict rows[] = {
                { replica->config.is_draining, PICK_DRAINING, "drain is set in the file", false },
                { replica->is_terminating, PICK_DRAINING, "its pod is terminating", false },
                { !*replica->numeric, PICK_DOWN, "its name does not resolve", true },
                { replica->is_suspended, PICK_ASLEEP, "suspended by the daemon", false },
                { replica->sleep == FLEET_WAKING, PICK_ASLEEP, "waking", false },
                { replica->sleep != FLEET_AWAKE, PICK_ASLEEP, "asleep", false },
                { !replica->is_ready, PICK_DOWN, "its pod is not ready", false },
                { replica->health == FLEET_UNHEALTHY && replica->config.wake.kind == WAKE_COMMAND, PICK_ASLEEP,
                  "it does not run", false },
                { replica->health == FLEET_UNHEALTHY, PICK_DOWN, "it does not answer", false },
                { replica->health == FLEET_UNKNOWN, PICK_DOWN, "not probed yet", true },
                { replica->config.wake.kind == WAKE_ENGINE && !replica->knows_sleep, PICK_DOWN, "not probed yet",
                  true },
                { !knows_models(replica), PICK_DOWN, "its models are not known yet", true },
                { true, PICK_UP, "", false },
        };
        size_t i = 0;

        while (!rows[i].holds)
                i++;
        return rows[i];
}

const char *fleet_state(const struct fleet_replica *replica)
{
        return pick_state_name(state_of(replica).state);
}

const char *fleet_why(const struct fleet_replica *replica)
{
        return state_of(replica).why;
}

bool fleet_is_used(const struct fleet_replica *replica)
{
        return replica->is_listed && !replica->is_several;
}

bool fleet_is_unsure(const struct fleet_replica *replica)
{
        return state_of(replica).is_unsure;
}

const char *fleet_tenant(const struct fleet_replica *replica)
{
        return *replica->config.tenant ? replica->config.tenant : replica->name;
}

const char *fleet_server_name(const struct fleet_replica *replica, char ret[SETTINGS_WORD])
{
        if (*replica->config.server_name)
                return replica->config.server_name;
        return route_address_host(replica->address, ret) ? ret : "";
}

static json_t *models_json(const struct settings_models *models)
{
        json_t *list = json_array();

        for (size_t i = 0; i < models->n; i++)
                (void)json_array_append_new(list, json_string(models->at[i]));
        return list;
}

/* What the daemon grants it now, or what the configuration says; 0: not known. */
static unsigned int share_of(const struct fleet_replica *replica)
{
        return replica->is_tenant && replica->share ? replica->share : replica->config.share;
}

static json_int_t rate_of(const struct fleet_replica *replica)
{
        unsigned int share = share_of(replica);

        return (json_int_t)(replica->config.rate * (share ? share : WHOLE) / WHOLE);
}

json_t *fleet_config(const struct fleet_replica *replica)
{
        const struct scrape *engine = &replica->engine;
        nsec wake = replica->wake_took ? replica->wake_took : replica->config.wake_time;
        uint32_t kv = replica->has_engine ? (scrape_kv_permille(engine) + KV_STEP / 2) / KV_STEP * KV_STEP : 0;
        uint32_t tokens = replica->config.kv_tokens ? replica->config.kv_tokens : scrape_kv_tokens(engine);
        bool can_wake = replica->config.wake.kind != WAKE_NONE;
        char name[SETTINGS_WORD];

        return json_pack("{ss so ss sI si sI sI sI sI sI sb sb ss}", "address", replica->numeric, "models",
                         models_json(replica->config.models.n ? &replica->config.models : &replica->found), "state",
                         fleet_state(replica), "rate", rate_of(replica), "share", (int)share_of(replica), "capacity",
                         (json_int_t)replica->config.capacity, "kv_tokens", (json_int_t)tokens, "kv_permille",
                         (json_int_t)(kv > WHOLE ? WHOLE : kv), "waiting",
                         (json_int_t)(replica->has_engine ? scrape_waiting(engine) : 0), "wake_ms",
                         (json_int_t)(wake / NSEC_PER_MSEC), "hold", replica->config.hold && can_wake, "tls",
                         replica->config.is_tls, "server_name",
                         replica->config.is_tls ? fleet_server_name(replica, name) : "");
}
