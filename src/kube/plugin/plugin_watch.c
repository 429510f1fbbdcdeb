/*
 * The thread that asks the daemon what devices there are, once a second. It says something only when something is new; a daemon that is silent
 * for a while (a restart is not) makes everything unhealthy, for nothing could start.
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

_Static_assert(sizeof(struct plugin_node) <= PIPE_BUF, "a view is written at once");

static int ask_node(struct ask *ask, struct plugin_node *ret)
{
        json_t *root = NULL;
        int r = ask_get(ask, "/v1/devices", &root, NULL);

        if (r == 0)
                r = plugin_node_read(root, ret);
        json_decref(root);
        return r;
}

/* Perhaps another daemon, that knows nothing. One that was replaced between two looks was never missed: its connection tells. */
static void meet(struct plugin *plugin, bool was_heard)
{
        if (was_heard)
                plugin->say("a new connection to the daemon: it is told everything again");
        reporter_resend(&plugin->reporter);
}

static void *watch(void *context)
{
        const struct timespec second = { .tv_sec = 1 };
        _cleanup_(ask_freep) struct ask *ask = NULL;
        struct plugin *plugin = context;
        struct plugin_node told, node;
        nsec heard = clock_now();

        memset(&told, 0, sizeof(told));
        if (ask_new(plugin->dir, &ask, NULL) < 0)
                return NULL; /* was tried before the thread was begun */
        while (!atomic_load(&plugin->is_ending)) {
                if (ask_node(ask, &node) == 0) {
                        heard = clock_now();
                        if (ask_is_anew(ask))
                                meet(plugin, told.is_heard);
                } else {
                        node = told;
                        node.is_heard = told.is_heard && clock_now() - heard < SILENCE;
                }
                if (!plugin_node_equal(&node, &told) && write(plugin->tell, &node, sizeof(node)) == sizeof(node))
                        told = node;
                (void)nanosleep(&second, NULL);
        }
        return NULL;
}

int plugin_watch_begin(struct plugin *plugin, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        int ends[2], r = ask_new(plugin->dir, &ask, err);

        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "a pipe");
        plugin->heard.fd = ends[0];
        plugin->tell = ends[1];
        r = -pthread_create(&plugin->thread, NULL, watch, plugin);
        if (r == 0)
                return 0;
        (void)close(ends[0]);
        (void)close(ends[1]);
        return err_set(err, r, "a thread");
}

void plugin_watch_end(struct plugin *plugin)
{
        atomic_store(&plugin->is_ending, true);
        (void)pthread_join(plugin->thread, NULL);
        (void)close(plugin->heard.fd);
        (void)close(plugin->tell);
}
