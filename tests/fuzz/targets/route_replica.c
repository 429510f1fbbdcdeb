/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a PUT of a replica, whatever it says: refused with a reason, or every text ends and every number is in
 * its range; read again over itself it says the same. */
#include "route/request/replica_body.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void need(int is_so)
{
        if (!is_so)
                abort();
}

static void check(const struct pool_config *config)
{
        need(config->n_models <= POOL_MODELS && config->state <= PICK_DOWN);
        need(memchr(config->server_name, '\0', sizeof(config->server_name)) != NULL);
        for (uint32_t i = 0; i < config->n_models; i++) {
                need(config->models[i][0] && memchr(config->models[i], '\0', sizeof(config->models[i])) &&
                     !config->models[i][strcspn(config->models[i], "\"\\")]);
                for (const char *at = config->models[i]; *at; at++)
                        need((unsigned char)*at >= ' ');
        }
        need(config->capacity <= INT32_MAX && config->kv_tokens <= INT32_MAX && config->kv_permille <= INT32_MAX &&
             config->waiting <= INT32_MAX && config->wake_ms <= INT32_MAX && config->share <= INT32_MAX);
        need(config->rate <= 1000000000000000ull);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static struct pool_config config, again;
        json_t *body = json_loadb((const char *)data, size, 0, NULL);
        const char *why;

        memset(&config, 0, sizeof(config));
        why = body ? replica_body_read(body, &config) : "no JSON";
        if (!why) {
                check(&config);
                again = config;
                need(!replica_body_read(body, &again) && !memcmp(&again, &config, sizeof(config)));
        } else {
                need(why[0] != '\0');
        }
        json_decref(body);
        return 0;
}
