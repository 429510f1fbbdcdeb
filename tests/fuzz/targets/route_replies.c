/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine says of its models, and a daemon of its tenants: the first line is the tenants, the rest the models.
 * Whatever is said, a share is one, and a model has a name that the module takes. */
#include "route/agent/health.c"
#include "route/agent/tenants.c"

#include <stdint.h>
#include <stdlib.h>

static void require(bool holds)
{
        if (!holds)
                abort();
}

static void tenants_said(struct fleet_replica *replica, const char *text, size_t size)
{
        json_t *tenants = json_loadb(text, size, 0, NULL), *tenant;
        size_t i;

        (void)tenant_find(tenants, replica->name);
        json_array_foreach (tenants, i, tenant) {
                require(share_of(tenant) <= 1000);
                (void)is_suspended(tenant);
        }
        json_decref(tenants);
}

static void models_said(struct fleet_replica *replica, const char *text, size_t size)
{
        struct http_answer answer = { .status = size % 2 ? 404 : 200 };

        require(buffer_add(&answer.body, text, size, SIZE_MAX) == 0);
        on_models(replica, &answer);
        require(replica->found.n <= SETTINGS_MODELS);
        for (size_t i = 0; i < replica->found.n; i++)
                require(model_is_fine(replica->found.at[i]));
        buffer_done(&answer.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct agent agent;
        static struct fleet_replica replica = { .name = "a", .agent = &agent };
        const uint8_t *end = memchr(data, '\n', size);
        size_t n = end ? (size_t)(end - data) : size;

        replica.found.n = 0;
        replica.has_models = false;
        tenants_said(&replica, (const char *)data, n);
        models_said(&replica, (const char *)data + n, size - n);
        return 0;
}
