/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that asks the daemon for its devices once a second, and reports changes. A daemon that does not answer for
 * longer than a restart takes makes every device unhealthy, for no container could start.
 */
#include "kube/plugin/plugin_run.h"

#include "ask/ask.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SILENCE (15 * NSEC_PER_SEC)

_Static_assert(sizeof(struct plugin_node) <= PIPE_BUF, "a report is one write");

static int ask_node(struct ask *ask, struct plugin_node *ret)
{
        json_t *root = NULL;
        int r = ask_get(ask, "/v1/devices", &root, NULL);

        if (r == 0)
                r = plugin_node_read(root, ret);
        json_decref(root);
        return r;
}

/* Perhaps a new daemon without the table. One that was replaced between two polls shows only by its new connection. */
static void on_new_connection(struct plugin *plugin, bool was_daemon_up)
{
        if (was_daemon_up)
                plugin->say("a new connection to the daemon: all allocations are sent again");
        reporter_resend(&plugin->reporter);
}

/* P3: host memory is offered on top of the devices, or not at all. */
static void lend_if_it_fits(const struct plugin *plugin, struct plugin_node *node)
{
        struct plugin_node lent = *node;

        plugin_node_lend(&lent);
        for (size_t i = 0; i < plugin->n_endpoints; i++)
                if (plugin_fits(&plugin->endpoints[i].resource, &lent, NULL) < 0)
                        return;
        *node = lent;
}

static void *poll_daemon(void *context)
{
        const struct timespec second = { .tv_sec = 1 };
        _cleanup_(ask_freep) struct ask *ask = NULL;
        struct plugin *plugin = context;
        struct plugin_node last, node;
        nsec answered_at = clock_now();

        memset(&last, 0, sizeof(last));
        if (ask_new(plugin->dir, &ask, NULL) < 0)
                return NULL; /* plugin_poll_start has tried it */
        while (!atomic_load(&plugin->is_ending)) {
                if (ask_node(ask, &node) == 0) {
                        answered_at = clock_now();
                        if (ask_is_anew(ask))
                                on_new_connection(plugin, last.is_daemon_up);
                } else {
                        node = last;
                        node.is_daemon_up = last.is_daemon_up && clock_now() - answered_at < SILENCE;
                }
                node.is_placed = plugin->ways.is_placed;
                /* Only once the extender can know what a device has: without the annotation it would divide the sum. */
                if (node.is_placed && atomic_load(&plugin->reporter.is_swap_told))
                        lend_if_it_fits(plugin, &node);
                if (!plugin_node_equal(&node, &last) && write(plugin->report_fd, &node, sizeof(node)) == sizeof(node))
                        last = node;
                (void)nanosleep(&second, NULL);
        }
        return NULL;
}

int plugin_poll_start(struct plugin *plugin, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        int ends[2], r = ask_new(plugin->dir, &ask, err);

        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "a pipe");
        plugin->reports.fd = ends[0];
        plugin->report_fd = ends[1];
        r = -pthread_create(&plugin->thread, NULL, poll_daemon, plugin);
        if (r == 0)
                return 0;
        (void)close(ends[0]);
        (void)close(ends[1]);
        return err_set(err, r, "starting a thread");
}

void plugin_poll_stop(struct plugin *plugin)
{
        atomic_store(&plugin->is_ending, true);
        (void)pthread_join(plugin->thread, NULL);
        (void)close(plugin->reports.fd);
        (void)close(plugin->report_fd);
}
