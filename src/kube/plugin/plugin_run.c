/* SPDX-License-Identifier: Apache-2.0 */
/* The device plugin's loop: reports of the daemon, changes in kubelet's directory, and signals. */
#include "kube/plugin/plugin_run.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/plugin/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Kubelet creates its socket before it listens on it, and it empties the directory file by file. */
#define SETTLE (100 * NSEC_PER_MSEC)

void plugin_log(const char *format, ...)
{
        char text[512];
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        (void)fprintf(stderr, "sublet: %s\n", text);
}

static void give_up(struct plugin *plugin, int code)
{
        plugin->code = code;
        loop_stop(plugin->loop);
}

/* P3 for all resources; false: the plugin stops with the reason logged. */
static bool do_all_fit(struct plugin *plugin)
{
        struct err err = { 0 };

        for (size_t i = 0; i < plugin->n_endpoints; i++)
                if (plugin_fits(&plugin->endpoints[i].resource, &plugin->node, &err) < 0) {
                        plugin->say("%s", err.text);
                        give_up(plugin, -EMSGSIZE);
                        return false;
                }
        return true;
}

static void on_report(struct loop_source *source, uint32_t events)
{
        struct plugin *plugin = source->context;
        size_t n_unhealthy = 0;

        (void)events;
        if (read(source->fd, &plugin->node, sizeof(plugin->node)) != sizeof(plugin->node) || !do_all_fit(plugin))
                return;
        reporter_set_devices(&plugin->reporter, &plugin->node);
        for (size_t i = 0; i < plugin->node.n_devices; i++)
                n_unhealthy += !plugin->node.devices[i].is_healthy;
        if (plugin->node.is_daemon_up)
                plugin->say("%zu GPUs, %zu of them lost", plugin->node.n_devices, n_unhealthy);
        else
                plugin->say("the daemon does not answer: its GPUs are unhealthy until it does");
        for (size_t i = 0; i < plugin->n_endpoints; i++)
                if (!plugin->is_begun)
                        endpoint_begin(&plugin->endpoints[i]);
                else if (plugin->endpoints[i].server)
                        grpc_server_push(plugin->endpoints[i].server);
        plugin->is_begun = true;
}

static void on_checkpoint(struct plugin *plugin)
{
        reporter_wake(&plugin->reporter);
        if (plugin->leases.loop)
                leases_sweep(&plugin->leases);
}

static void on_directory(struct loop_source *source, uint32_t events)
{
        _Alignas(struct inotify_event) char data[4096];
        struct plugin *plugin = source->context;
        ssize_t n = read(source->fd, data, sizeof(data));

        (void)events;
        for (ssize_t at = 0; at < n;) {
                const struct inotify_event *event = (const struct inotify_event *)(const void *)(data + at);

                at += (ssize_t)(sizeof(*event) + event->len);
                if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
                        plugin->say("%s is gone", plugin->kubelet);
                        give_up(plugin, -ENOENT);
                }
                if (event->len && !strcmp(event->name, CHECKPOINT_FILE))
                        on_checkpoint(plugin);
                for (size_t i = 0; event->len && plugin->is_begun && i < plugin->n_endpoints; i++) {
                        bool is_new = event->mask & IN_CREATE && !strcmp(event->name, "kubelet.sock");

                        if (is_new) /* a new kubelet knows no plugin */
                                plugin->endpoints[i].is_registered = false;
                        if (is_new || !strcmp(event->name, plugin->endpoints[i].name))
                                endpoint_schedule(&plugin->endpoints[i], SETTLE);
                }
        }
}

static void on_signal(struct loop_source *source, uint32_t events)
{
        struct plugin *plugin = source->context;

        (void)events;
        give_up(plugin, 0);
}

static int watch_directory(struct plugin *plugin, struct err *err)
{
        int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

        plugin->inotify = (struct loop_source){ .fd = fd, .ready = on_directory, .context = plugin };
        if (fd < 0 || loop_add(plugin->loop, &plugin->inotify, EPOLLIN) < 0)
                return err_set(err, -errno, "inotify");
        if (inotify_add_watch(fd, plugin->kubelet,
                              IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF |
                                      IN_ONLYDIR) < 0)
                return err_set(err, -errno, "%s (kubelet's directory for device plugins)", plugin->kubelet);
        return 0;
}

static int take_signals(struct plugin *plugin, struct err *err)
{
        int r;

        plugin->signals = (struct loop_source){ .ready = on_signal, .context = plugin };
        r = loop_add_end(plugin->loop, &plugin->signals);
        return r < 0 ? err_set(err, r, "signals") : 0;
}

static void stop_reporter(struct plugin *plugin)
{
        resizer_stop(&plugin->resizer);
        reporter_stop(&plugin->reporter);
}

static int start_reporter(struct plugin *plugin, struct err *err)
{
        struct allocation_reporter *reporter = &plugin->reporter;
        int r;

        for (size_t i = 0; i < plugin->n_endpoints; i++)
                plugin->resources[i] = plugin->endpoints[i].resource;
        reporter->resources = plugin->resources;
        reporter->n_resources = plugin->n_endpoints;
        reporter->dir = plugin->dir;
        reporter->kubelet = plugin->kubelet;
        reporter->is_placed = plugin->ways.is_placed;
        reporter->say = plugin->say;
        r = reporter_start(reporter, err);
        if (r < 0 || !reporter->has_api)
                return r;
        plugin->resizer.reporter = reporter;
        r = resizer_start(&plugin->resizer, err);
        if (r < 0)
                stop_reporter(plugin);
        return r;
}

static int start_leases(struct plugin *plugin, struct err *err)
{
        struct plugin_leases *leases = &plugin->leases;

        if (!plugin->ways.lease)
                return 0;
        leases->dir = plugin->dir;
        leases->kubelet = plugin->kubelet;
        leases->say = plugin->say;
        plugin->ways.context = leases;
        return leases_start(leases, plugin->loop, err);
}

static int plugin_loop(struct plugin *plugin, struct err *err)
{
        int r = take_signals(plugin, err); /* before any thread starts */

        if (r == 0)
                r = watch_directory(plugin, err);
        if (r == 0)
                r = start_leases(plugin, err);
        if (r == 0)
                r = start_reporter(plugin, err);
        if (r < 0)
                return r;
        r = plugin_poll_start(plugin, err);
        if (r < 0) {
                stop_reporter(plugin);
                return r;
        }
        plugin->reports.ready = on_report;
        plugin->reports.context = plugin;
        r = loop_add(plugin->loop, &plugin->reports, EPOLLIN);
        if (r == 0)
                r = loop_run(plugin->loop);
        plugin_poll_stop(plugin);
        stop_reporter(plugin);
        for (size_t i = 0; i < plugin->n_endpoints; i++)
                endpoint_end(&plugin->endpoints[i]);
        return r < 0 ? err_set(err, r, "the loop") : 0;
}

/* One plugin for kubelet's directory: two would offer the same devices by two resources. The lock is on the directory
 * itself, as kubelet empties it, and goes with the process. */
static int be_the_only_one(const struct plugin *plugin, int *ret_lock, struct err *err)
{
        *ret_lock = open(plugin->kubelet, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*ret_lock < 0)
                return err_set(err, -errno, "%s (kubelet's directory for device plugins)", plugin->kubelet);
        if (flock(*ret_lock, LOCK_EX | LOCK_NB) == 0)
                return 0;
        return err_say(err, -EBUSY,
                       "another device plugin of Sublet offers the GPUs of this node: a device would be booked twice; "
                       "stop that one, or give the nodes different labels");
}

int plugin_run(struct plugin *plugin, struct err *err)
{
        _cleanup_(closep) int lock = -1;
        int r = be_the_only_one(plugin, &lock, err);

        if (r < 0)
                return r;
        r = loop_new(&plugin->loop);
        if (r < 0)
                return err_set(err, r, "a loop");
        plugin->inotify.fd = plugin->signals.fd = -1;
        r = plugin_loop(plugin, err);
        leases_stop(&plugin->leases);
        closep(&plugin->inotify.fd);
        closep(&plugin->signals.fd);
        plugin->loop = loop_free(plugin->loop);
        return r;
}
