/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's state, after a NUL its config.json, after another a table of allocations: together they give a request
 * for a lease, or none. Whatever the container says, a pod's is at most what was allocated to it, no container sees the
 * neighbours' work, and its name is a text that ends.
 */
#include "daemon/containers/container_request.h"

#include "base/err.h"
#include "base/text.h"
#include "lease/capabilities.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
        DEVICES = 2,
        TOTAL_GIB = 100,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int is_so)
{
        if (!is_so)
                abort();
}

/* Up to the next NUL. */
static size_t part(const char **text, size_t *left, const char **ret)
{
        const char *end = memchr(*text, 0, *left);
        size_t size = end ? (size_t)(end - *text) : *left;

        *ret = *text;
        *text += size + (end != NULL);
        *left -= size + (end != NULL);
        return size;
}

static void check_memory(const struct allocation *allocation, const char *mem)
{
        for (const char *at = mem; *at; at += *at == ',') {
                char *end;
                unsigned long device = strtoul(at, &end, 10);
                unsigned long long memory;

                need(end != at && *end == '=' && device < LEASE_DEVICES_MAX);
                at = end + 1;
                memory = strtoull(at, &end, 10);
                need(end != at && (*end == ',' || !*end) && memory <= allocation->memory[device]);
                at = end;
        }
}

static void check_request(const struct allocations *allocations, const struct oci_container *container,
                          const struct message_request *request)
{
        const struct allocation *allocation;
        unsigned int capabilities;
        const char *wrong;

        need(request->tenant[0] && memchr(request->tenant, 0, sizeof(request->tenant)) && !request->is_named);
        need(request->share <= TURNS_WHOLE && request->cap >= 1 && request->cap <= TURNS_WHOLE);
        need(capabilities_parse(request->capabilities, &capabilities, &wrong) == 0);
        need(!(capabilities & CAPABILITY_PROFILE) && !request->directory[0] && !request->ipc_host);
        if (!container->pod[0])
                return;
        allocation = allocations_find(allocations, container->pod, container->container);
        need(allocation != NULL);
        need(!allocation->share || (request->share && request->share <= allocation->share));
        check_memory(allocation, request->mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct oci_container container;
        static struct oci_request asked;
        struct tenants tenants = { .n_devices = DEVICES };
        const struct allocation_devices devices = { .n = DEVICES, .uuids = { "GPU-a", "GPU-b" } };
        struct allocations allocations = { 0 };
        const char *text = (const char *)data, *state, *config, *table, *wrong = NULL;
        size_t n_state = part(&text, &size, &state), n_config = part(&text, &size, &config);
        size_t n_table = part(&text, &size, &table);
        struct message_request request;
        struct err err = { 0 };
        json_t *body;
        int r;

        for (unsigned int i = 0; i < DEVICES; i++)
                tenants.totals[i] = TOTAL_GIB * GIB;
        memset(&asked, 0, sizeof(asked));
        if (oci_state_parse(state, n_state, &container, &wrong) != 0 ||
            oci_config_parse(config, n_config, &asked, &wrong) < 0)
                return 0;
        body = json_loadb(table, n_table, 0, NULL);
        if (body)
                (void)allocations_read(body, &devices, &allocations, &err);
        err = (struct err){ 0 };
        r = container_request_fill(&tenants, &allocations, &container, &asked, &request, &err);
        need(r >= 0 || err.text[0]);
        if (r == 0)
                check_request(&allocations, &container, &request);
        allocations_done(&allocations);
        json_decref(body);
        return 0;
}
