/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API over a table without sockets. The first line is "METHOD UID PATH?QUERY", the rest is the body.
 *
 * Whatever is asked, the answer is a status with JSON, text or a file of the page; nobody but root sees the
 * name of another's tenant; and the leases still fit the devices (A1, A2 of tenants.h).
 */
#include "daemon/api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        ANNA = 1000,
        BERT = 1001,
        DEVICES = 2,
        BODY_MAX = 4096,
};

static struct daemon *daemon_of_two;

static void require(int holds)
{
        if (!holds)
                abort();
}

static void tenant_put(struct daemon *daemon, const char *name, uid_t owner)
{
        struct message_lease lease = { .owner = owner, .cap = TURNS_WHOLE, .mode = "time", .id = owner };
        struct tenant *tenant;

        (void)snprintf(lease.tenant, sizeof(lease.tenant), "%s", name);
        for (unsigned int i = 0; i < DEVICES; i++) {
                lease.devices[i].is_granted = true;
                lease.devices[i].quota = 10 * GIB;
        }
        require(tenants_put(&daemon->tenants, &lease, &tenant) == 0);
        tenant->state = TENANT_RUNNING;
        tenant->daemon = daemon;
}

/* Its leases are as they were at the beginning of each input. */
static struct daemon *begin(void)
{
        if (!daemon_of_two) {
                daemon_of_two = calloc(1, sizeof(*daemon_of_two));
                require(daemon_of_two != NULL);
                daemon_of_two->is_silent = true;
                daemon_of_two->n_devices = daemon_of_two->tenants.n_devices = DEVICES;
                for (unsigned int i = 0; i < DEVICES; i++) {
                        daemon_of_two->devices[i].daemon = daemon_of_two;
                        daemon_of_two->devices[i].index = i;
                        daemon_of_two->tenants.totals[i] = 100 * GIB;
                }
        }
        allocations_done(&daemon_of_two->allocations);
        while (daemon_of_two->tenants.first) {
                struct tenant *tenant = daemon_of_two->tenants.first;

                tenants_take(&daemon_of_two->tenants, tenant);
                tenant_free(tenant);
        }
        tenant_put(daemon_of_two, "annas-tenant", ANNA);
        tenant_put(daemon_of_two, "berts-tenant", BERT);
        return daemon_of_two;
}

/* "a=b&c": into the request; the text is cut up. */
static void split_query(char *query, struct api_request *request)
{
        char *item;

        while ((item = strsep(&query, "&")) && request->n_arguments < API_ARGUMENTS) {
                char *value = strchr(item, '=');

                if (value)
                        *value++ = '\0';
                request->arguments[request->n_arguments++] = (struct api_argument){ item, value };
        }
}

static void check_leases(const struct daemon *daemon)
{
        for (unsigned int i = 0; i < DEVICES; i++) {
                require(tenants_leased(&daemon->tenants, i, NULL) <= daemon->tenants.totals[i]);
                require(tenants_promised(&daemon->tenants, i, NULL) <= TURNS_WHOLE);
        }
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                require(t->lease.cap >= 1 && t->lease.cap <= TURNS_WHOLE && t->lease.class <= TURNS_BATCH);
}

static bool holds(const struct api_response *response, const char *text)
{
        return response->body && memmem(response->body, response->size, text, strlen(text));
}

/* In a name or a text of the value, whatever escapes it was written with. */
static bool says(const json_t *value, const char *text)
{
        const char *name;
        const json_t *item;
        size_t i;

        if (json_is_string(value))
                return memmem(json_string_value(value), json_string_length(value), text, strlen(text));
        json_object_foreach ((json_t *)(uintptr_t)value, name, item)
                if (strstr(name, text) || says(item, text))
                        return true;
        json_array_foreach (value, i, item)
                if (says(item, text))
                        return true;
        return false;
}

/* Whether the input names the tenant, as bytes or in the JSON of its body. */
static bool names_berts(const struct api_request *request, const uint8_t *data, size_t size)
{
        json_t *body = json_loadb(request->body ? request->body : "", request->body_size, JSON_ALLOW_NUL, NULL);
        bool is_named = memmem(data, size, "berts-tenant", strlen("berts-tenant")) || says(body, "berts-tenant");

        json_decref(body);
        return is_named;
}

static void check_answer(const struct api_request *request, const struct api_response *response, bool knows_berts)
{
        json_t *body;

        require(response->status >= 200 && response->status < 600);
        if (response->wait != API_WAIT_NOT || response->asset)
                return;
        require(response->body != NULL);
        /* An error repeats what was asked; nobody is told a name that they did not know. */
        if (!request->sees_all && request->uid != BERT && !knows_berts)
                require(!holds(response, "berts-tenant"));
        if (strcmp(response->type, "application/json") != 0)
                return;
        body = json_loadb(response->body, response->size, 0, NULL);
        require(json_is_object(body) || json_is_array(body));
        require((response->status == API_OK) == !json_object_get(body, "error"));
        json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char text[BODY_MAX + 1] = { 0 }, *line = text, *body, *method, *uid, *query;
        struct api_response response = { 0 };
        struct api_request request = { 0 };
        struct daemon *daemon;
        size_t n = size < BODY_MAX ? size : BODY_MAX;

        memcpy(text, data, n);
        body = memchr(text, '\n', n);
        if (body)
                *body++ = '\0';
        method = strsep(&line, " ");
        uid = line ? strsep(&line, " ") : NULL;
        if (!line)
                return 0;
        query = strchr(line, '?');
        if (query)
                *query++ = '\0';
        daemon = begin();
        request = (struct api_request){ .method = method,
                                        .path = line,
                                        .body = body,
                                        .body_size = body ? n - (size_t)(body - text) : 0,
                                        .uid = (uid_t)atoi(uid),
                                        .sees_all = !strcmp(uid, "0"),
                                        .may_only_ask = !strcmp(uid, "-1") };
        if (query)
                split_query(query, &request);
        api_answer(daemon, &request, &response);
        check_answer(&request, &response, names_berts(&request, data, size));
        response.deadline = 0;
        if (response.wait == API_WAIT_SET || response.wait == API_WAIT_TIME)
                require(api_continue(daemon, &response));
        check_leases(daemon);
        api_done(&response);
        return 0;
}
