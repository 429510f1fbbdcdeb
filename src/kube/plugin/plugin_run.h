/*
 * The device plugin as a process: what it is told, the thread that asks the daemon, and an endpoint per resource.
 *
 * One loop does all but asking: a daemon that hangs must not hold up kubelet, but for an Allocate that makes a lease (5 s at most).
 */
#pragma once

#include "base/loop.h"
#include "kube/plugin/plugin.h"
#include "kube/plugin/plugin_leases.h"
#include "kube/plugin/allocation_reporter.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
        PLUGIN_RESOURCES = 4,
        PLUGIN_PATH = 108, /* a socket's */
};

struct plugin;

/* One resource: its socket, and what kubelet knows of it. */
struct endpoint {
        struct plugin *plugin;
        struct plugin_resource resource;
        char name[64]; /* of the socket: "sublet.dev_gpu-mem.sock" */
        char path[PLUGIN_PATH];
        struct grpc_server *server;
        struct grpc_ask *ask;    /* a registration under way */
        struct loop_timer timer; /* the next look at it */
        bool is_registered;
};

struct plugin {
        const char *dir, *kubelet; /* the daemon's directory, or NULL; kubelet's folder for plugins */
        struct plugin_ways ways;
        struct plugin_node node;
        struct endpoint endpoints[PLUGIN_RESOURCES];
        struct plugin_resource resources[PLUGIN_RESOURCES]; /* the endpoints', for the teller */
        struct allocation_reporter reporter;
        struct plugin_leases leases; /* with ways.lease */
        size_t n_endpoints;
        bool is_begun; /* the daemon has answered once */

        struct loop *loop;
        struct loop_source inotify, heard, signals;
        int tell; /* the thread's end of `heard` */
        pthread_t thread;
        atomic_bool is_ending;
        int code; /* why it ends */
        void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* Serves its endpoint and registers it, now and whenever kubelet begins anew. */
void endpoint_begin(struct endpoint *endpoint);
void endpoint_schedule(struct endpoint *endpoint, nsec delay);
void endpoint_end(struct endpoint *endpoint);

/* Asks the daemon once a second; what has changed comes out of plugin->heard. 0; -errno with err. */
int plugin_watch_begin(struct plugin *plugin, struct err *err);
void plugin_watch_end(struct plugin *plugin);

/* Until a signal, or until it cannot go on. 0; -errno with err. */
int plugin_run(struct plugin *plugin, struct err *err);
