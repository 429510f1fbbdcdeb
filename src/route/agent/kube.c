/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/kube.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const char *text(const json_t *object, const char *name)
{
        const char *value = json_string_value(json_object_get(object, name));

        return value ? value : "";
}

/* The number of the wanted one among "ports"; 0: it is not there. */
static int find_port(const json_t *ports, const char *wanted)
{
        for (size_t i = 0; i < json_array_size(ports); i++) {
                const json_t *port = json_array_get(ports, i);
                json_int_t number = json_integer_value(json_object_get(port, "port"));
                char digits[24];

                if (number < 1 || number > 65535)
                        continue;
                (void)snprintf(digits, sizeof(digits), "%d", (int)number);
                if (!*wanted || !strcmp(wanted, text(port, "name")) || !strcmp(wanted, digits))
                        return (int)number;
        }
        return 0;
}

static bool is_ip(const char *address, bool *ret_is_6)
{
        struct in6_addr parsed;

        *ret_is_6 = inet_pton(AF_INET6, address, &parsed) == 1;
        return *ret_is_6 || inet_pton(AF_INET, address, &parsed) == 1;
}

static void add_endpoint(struct kube_slice *slice, const char *address, int port, const json_t *target, bool is_ready,
                         bool is_terminating)
{
        struct kube_endpoint *endpoint;
        const char *pod = text(target, "name");
        bool is_6;

        if (!port || !is_ip(address, &is_6))
                return;
        if (slice->n == KUBE_ENDPOINTS) {
                slice->n_left_out++;
                return;
        }
        endpoint = &slice->at[slice->n];
        *endpoint = (struct kube_endpoint){ .is_ready = is_ready, .is_terminating = is_terminating };
        (void)snprintf(endpoint->address, sizeof(endpoint->address), is_6 ? "[%s]:%d" : "%s:%d", address, port);
        (void)snprintf(endpoint->name, sizeof(endpoint->name), is_6 ? "%s.%d" : "%s:%d", address, port);
        if (route_settings_is_name(pod))
                (void)snprintf(endpoint->name, sizeof(endpoint->name), "%s", pod);
        slice->n++;
}

static void read_endpoint(const json_t *endpoint, int port, struct kube_slice *slice)
{
        const json_t *conditions = json_object_get(endpoint, "conditions");
        const json_t *addresses = json_object_get(endpoint, "addresses");

        /* "ready" absent means ready (v1: nil is to be read as true) */
        add_endpoint(slice,
                     json_array_size(addresses) && json_string_value(json_array_get(addresses, 0)) ?
                             json_string_value(json_array_get(addresses, 0)) :
                             "",
                     port, json_object_get(endpoint, "targetRef"), !json_is_false(json_object_get(conditions, "ready")),
                     json_is_true(json_object_get(conditions, "terminating")));
}

static void read_subset(const json_t *subset, const char *port, struct kube_slice *slice)
{
        static const char *const lists[] = { "addresses", "notReadyAddresses" };
        int number = find_port(json_object_get(subset, "ports"), port);

        for (size_t k = 0; k < 2; k++) {
                const json_t *list = json_object_get(subset, lists[k]);

                for (size_t i = 0; i < json_array_size(list); i++) {
                        const json_t *address = json_array_get(list, i);

                        add_endpoint(slice, text(address, "ip"), number, json_object_get(address, "targetRef"), k == 0,
                                     false);
                }
        }
}

bool kube_read(const json_t *object, const char *port, struct kube_slice *ret)
{
        const char *name = text(json_object_get(object, "metadata"), "name");
        const json_t *endpoints = json_object_get(object, "endpoints"), *subsets = json_object_get(object, "subsets");
        int number = find_port(json_object_get(object, "ports"), port);

        ret->n = ret->n_left_out = 0;
        if (!*name || strlen(name) >= sizeof(ret->name))
                return false;
        (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
        for (size_t i = 0; i < json_array_size(endpoints); i++)
                read_endpoint(json_array_get(endpoints, i), number, ret);
        for (size_t i = 0; i < json_array_size(subsets); i++)
                read_subset(json_array_get(subsets, i), port, ret);
        return true;
}
