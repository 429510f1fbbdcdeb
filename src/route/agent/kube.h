/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoints of a Kubernetes service: EndpointSlice (discovery.k8s.io/v1), or the older Endpoints (v1) on servers
 * without it. The input comes from the network: any JSON.
 *
 * Pure. Threads: any.
 */
#pragma once

#include "route/settings/settings.h"

#include <jansson.h>
#include <stdbool.h>

enum {
        KUBE_ENDPOINTS = SETTINGS_REPLICAS,
};

struct kube_endpoint {
        char name[SETTINGS_NAME]; /* of its pod; else its address */
        char address[SETTINGS_WORD];
        bool is_ready, is_terminating;
};

struct kube_slice {
        char name[SETTINGS_PATH];
        size_t n, n_left_out; /* those for which there is no room */
        struct kube_endpoint at[KUBE_ENDPOINTS];
};

/* port: its name, its number, or "" for the first. False: this is no slice. Endpoints without such a
 * port or without an IP address are left out. */
bool kube_read(const json_t *object, const char *port, struct kube_slice *ret);
