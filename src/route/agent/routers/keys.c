/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/routers/keys.h"

#include <stdio.h>

/* No replica has a blank in its name. */
static uint64_t name_of_key(const char *key)
{
        char name[SETTINGS_NAME + 8];

        (void)snprintf(name, sizeof(name), "key %s", key);
        return gossip_name(name);
}

size_t routers_read_keys(const json_t *list, struct gossip_row *ret)
{
        size_t n = json_array_size(list) < SETTINGS_KEYS ? json_array_size(list) : SETTINGS_KEYS;

        for (size_t i = 0; i < n; i++) {
                const json_t *entry = json_array_get(list, i);
                const char *name = json_string_value(json_object_get(entry, "name"));

                ret[i] = (struct gossip_row){ .name = name_of_key(name ? name : "") };
                for (size_t k = 0; k < HEARD_KEY_N; k++)
                        ret[i].value[k] = (uint64_t)json_integer_value(json_object_get(entry, HEARD_KEY_NAMES[k]));
        }
        return n;
}

/* What the others let pass of a key, and how many of its requests they have. */
static json_t *key_elsewhere(const struct settings_key *key, struct gossip *gossip, nsec now)
{
        uint64_t name = name_of_key(key->name);
        struct gossip_row sum;
        json_t *entry = json_pack("{ss sI sI}", "name", key->name, "interval_us",
                                  (json_int_t)request_rate_usec(&key->rate), "per_minute", (json_int_t)key->tokens);

        gossip_sum(gossip, name, now, &sum);
        for (size_t k = 0; k < HEARD_KEY_N; k++) {
                uint64_t n = k == HEARD_KEY_AT_ONCE ? sum.value[k] : gossip_more(gossip, name, k, now);

                (void)json_object_set_new(entry, HEARD_KEY_NAMES[k],
                                          json_integer((json_int_t)(n < INT32_MAX ? n : INT32_MAX)));
        }
        return entry;
}

json_t *routers_keys(const struct settings *settings, struct gossip *gossip, nsec now)
{
        json_t *list = json_array();

        for (size_t i = 0; i < settings->n_keys; i++)
                if (settings_key_has_limit(&settings->keys[i]))
                        (void)json_array_append_new(list, key_elsewhere(&settings->keys[i], gossip, now));
        return list;
}
