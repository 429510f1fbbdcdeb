/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/replica_body.h"

#include "route/model.h"

#include <stdio.h>
#include <string.h>

const char *replica_body_number(const json_t *body, const char *name, uint32_t *ret)
{
        const json_t *n = json_object_get(body, name);

        if (!n)
                return NULL;
        if (!json_is_integer(n) || json_integer_value(n) < 0 || json_integer_value(n) > INT32_MAX)
                return "a number is not a whole number from 0 to 2147483647";
        *ret = (uint32_t)json_integer_value(n);
        return NULL;
}

static const char *set_numbers(const json_t *body, struct pool_config *config)
{
        const json_t *rate = json_object_get(body, "rate"), *hold = json_object_get(body, "hold");
        const char *why = replica_body_number(body, "capacity", &config->capacity);

        why = why ? why : replica_body_number(body, "kv_tokens", &config->kv_tokens);
        why = why ? why : replica_body_number(body, "kv_permille", &config->kv_permille);
        why = why ? why : replica_body_number(body, "waiting", &config->waiting);
        why = why ? why : replica_body_number(body, "wake_ms", &config->wake_ms);
        why = why ? why : replica_body_number(body, "share", &config->share);
        if (why)
                return why;
        if (rate && (!json_is_number(rate) || !(json_number_value(rate) >= 0 && json_number_value(rate) <= 1e15)))
                return "'rate' is work per second";
        if (rate)
                config->rate = (uint64_t)json_number_value(rate);
        if (hold && !json_is_boolean(hold))
                return "'hold' is true or false";
        if (hold)
                config->hold = json_is_true(hold);
        return NULL;
}

static const char *set_tls(const json_t *body, struct pool_config *config)
{
        const json_t *is_tls = json_object_get(body, "tls"), *name = json_object_get(body, "server_name");
        const char *text = json_string_value(name);

        if (is_tls && !json_is_boolean(is_tls))
                return "'tls' is true or false";
        if (name && (!text || strlen(text) >= POOL_ADDRESS))
                return "'server_name' has at most 127 bytes";
        if (is_tls)
                config->is_tls = json_is_true(is_tls);
        if (text)
                (void)snprintf(config->server_name, sizeof(config->server_name), "%s", text);
        return NULL;
}

static const char *set_models(const json_t *models, struct pool_config *config)
{
        if (!models)
                return NULL;
        if (!json_is_array(models) || json_array_size(models) > POOL_MODELS)
                return "'models' is an array of at most 16 names";
        for (size_t i = 0; i < json_array_size(models); i++) {
                const char *name = json_string_value(json_array_get(models, i));

                if (!name || !model_is_fine(name))
                        return "a model's name has 1 to 255 bytes, no quote, no backslash and no control character";
                (void)snprintf(config->models[i], sizeof(config->models[i]), "%s", name);
        }
        config->n_models = (uint32_t)json_array_size(models);
        return NULL;
}

static const char *set_state(const json_t *state, struct pool_config *config)
{
        const char *name = json_string_value(state);

        for (enum pick_state i = PICK_UP; name && i <= PICK_DOWN; i++)
                if (strcmp(pick_state_name(i), name) == 0) {
                        config->state = i;
                        return NULL;
                }
        return state ? "'state' is up, asleep, draining or down" : NULL;
}

const char *replica_body_read(const json_t *body, struct pool_config *config)
{
        const char *why = set_numbers(body, config);

        why = why ? why : set_tls(body, config);
        why = why ? why : set_models(json_object_get(body, "models"), config);
        return why ? why : set_state(json_object_get(body, "state"), config);
}

bool replica_name_is_fine(const char *name)
{
        size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-");

        return n >= 1 && n < POOL_NAME && !name[n];
}
