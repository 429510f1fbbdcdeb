/*
 * The part of the device plugin that tells: the daemon, who has been allocated what (allocations.h); the API server, which devices
 * this node has (annotation `sublet.dev/devices`).
 *
 *  T1  the daemon is told the whole table, again and again: when it changes, every 10 s, and when its connection is another. Nothing is kept
 *      here that is not read anew: a plugin that begins has kubelet's checkpoint;
 *  T2  a checkpoint that cannot be read changes nothing.
 *
 * Threads: its own (and the mirror's, of the node's pods): a daemon or an API server that hangs holds up nobody.
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
        const char *dir, *kubelet; /* the daemon's directory, or NULL; kubelet's folder for plugins */
        const char *node;          /* our name; NULL without has_api */
        const struct plugin_resource *resources;
        size_t n_resources;
        struct api_settings api;
        bool has_api, is_placed;
        void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));

        struct lock lock; /* what is below, until `wake` */
        struct plugin_node devices;
        struct pods pods;
        int wake; /* eventfd */
        struct informer informer;
        char select[320];
        pthread_t thread;
        atomic_bool is_ending, is_resend_due;
};

/* 0; -errno with err. */
int reporter_start(struct allocation_reporter *reporter, struct err *err);
void reporter_stop(struct allocation_reporter *reporter); /* also of one that was never begun */

/* Any thread: the devices, as last heard of; kubelet's checkpoint is new; the daemon is there again, and may have forgotten. */
void reporter_set_devices(struct allocation_reporter *reporter, const struct plugin_node *node);
void reporter_wake(struct allocation_reporter *reporter);
void reporter_resend(struct allocation_reporter *reporter);
