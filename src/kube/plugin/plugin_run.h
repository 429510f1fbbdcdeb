/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device plugin as a process: its settings, the thread that polls the daemon, and an endpoint per resource.
 *
 * One loop does everything but polling: a daemon that hangs must not delay kubelet, except for an Allocate that makes a
 * lease (5 s at most).
 */
#pragma once

#include "base/loop.h"
#include "kube/plugin/plugin.h"
#include "kube/plugin/plugin_leases.h"
#include "kube/plugin/resize/resizer.h"
#include "kube/plugin/allocation_reporter.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
        PLUGIN_RESOURCES = 4,
        PLUGIN_PATH = 108, /* of a socket, with its NUL */
};

struct plugin;

/* One resource: its socket, and its registration with kubelet. */
struct endpoint {
        struct plugin *plugin;
        struct plugin_resource resource;
        char name[64]; /* of the socket: "sublet.dev_gpu-mem.sock" */
        char path[PLUGIN_PATH];
        struct grpc_server *server;
        struct grpc_call *registration; /* under way, or NULL */
        struct loop_timer timer;        /* until the next check */
        bool is_registered;
};

struct plugin {
        const char *dir, *kubelet; /* the daemon's directory, or NULL; kubelet's directory for plugins */
        struct plugin_ways ways;
        struct plugin_node node;
        struct endpoint endpoints[PLUGIN_RESOURCES];
        struct plugin_resource resources[PLUGIN_RESOURCES]; /* the endpoints', for the reporter */
        struct allocation_reporter reporter;
        struct resizer resizer;      /* with reporter.has_api */
        struct plugin_leases leases; /* with ways.lease */
        size_t n_endpoints;
        bool is_begun; /* the daemon has answered once */

        struct loop *loop;
        struct loop_source inotify, reports, signals;
        int report_fd; /* the polling thread's end of `reports` */
        pthread_t thread;
        atomic_bool is_ending;
        int code; /* why it stops: 0 or -errno */
        void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* Serves the endpoint and registers it, now and whenever kubelet restarts. */
void endpoint_begin(struct endpoint *endpoint);
void endpoint_schedule(struct endpoint *endpoint, nsec delay);
void endpoint_end(struct endpoint *endpoint);

/* Polls the daemon once a second; changes arrive at plugin->reports. 0; -errno with err. */
int plugin_poll_start(struct plugin *plugin, struct err *err);
void plugin_poll_stop(struct plugin *plugin);

/* A line of the log, to the standard error output. Also the DRA driver's. */
void plugin_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Until a signal or a fatal error. 0; -errno with err. */
int plugin_run(struct plugin *plugin, struct err *err);
