/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports to the daemon which containers have been allocated what (allocations.h), and to the API server which devices
 * this node has (annotation `sublet.dev/devices`).
 *
 *  T1  The daemon gets the whole table: when it changes, every 10 s, and on a new connection. All state can be read
 *      again: a plugin that starts has kubelet's checkpoint.
 *  T2  A checkpoint that cannot be read changes nothing.
 *
 * Threads: its own, and the informer's for the node's pods: a daemon or an API server that hangs delays nobody else.
 */
#pragma once

#include "base/lock.h"
#include "kube/client/api.h"
#include "kube/client/informer.h"
#include "kube/plugin/plugin.h"
#include "kube/plugin/pods.h"

#include <pthread.h>
#include <stdatomic.h>

struct allocation_reporter {
        /* Set before reporter_start; borrowed. */
        const char *dir, *kubelet; /* the daemon's directory, or NULL; kubelet's directory for plugins */
        const char *node;          /* this node's name; NULL without has_api */
        const struct plugin_resource *resources;
        size_t n_resources;
        struct api_settings api;
        bool has_api, is_placed;
        void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));

        struct lock lock; /* guards `devices` and `pods` */
        struct plugin_node devices;
        struct pods pods;
        int wake; /* eventfd */
        struct informer informer;
        char select[320];
        pthread_t thread;
        atomic_bool is_ending, is_resend_due;
        atomic_bool is_swap_told; /* the node's annotation says how much memory is the host's */
};

/* 0; -errno with err. */
int reporter_start(struct allocation_reporter *reporter, struct err *err);
void reporter_stop(struct allocation_reporter *reporter); /* also one that was never started */

/* Any thread. set_devices: as the daemon last reported them; wake: kubelet's checkpoint has changed; resend: the daemon
 * is back, and may have lost the table. */
void reporter_set_devices(struct allocation_reporter *reporter, const struct plugin_node *node);
void reporter_wake(struct allocation_reporter *reporter);
void reporter_resend(struct allocation_reporter *reporter);
