/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans for a collector of OpenTelemetry. nginx logs a line at the end of each request that is traced, to a socket of
 * ours (nginx_conf.c, log_format spans); what they say goes to the collector once a second, by OTLP over HTTP.
 *
 * Requests never wait for any of it: nginx drops a line that the socket has no room for, and spans that the collector
 * does not take are dropped and counted.
 */
#include "route/agent/agent.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "route/agent/traces/span.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
        SPANS_MOST = 4096, /* kept for the next request to the collector */
        AT_ONCE = 1024,    /* lines read before other work */
        LINE = 32 * 1024,  /* bytes; a longer one is cut, and is none then */
        BUFFER = 4 << 20,  /* of the socket; the kernel's bound may be lower */
};

static const nsec EVERY = NSEC_PER_SEC, CALL_LIMIT = 5 * NSEC_PER_SEC;

struct traces {
        char collector[SETTINGS_TEXT], base[SETTINGS_TEXT], path[SETTINGS_TEXT];
        int fd;
        json_t *spans;
        size_t n_lost;
        bool is_failing;
        nsec at;
        struct http_pool_call *call;
};

/* ---- set-up -------------------------------------------------------------------------------------------------- */

void traces_done(struct agent *agent)
{
        struct traces *traces = TAKE(agent->traces);

        if (!traces)
                return;
        http_pool_cancel(agent->http, traces->call);
        closep(&traces->fd);
        json_decref(traces->spans);
        free(traces);
}

/* "http://HOST:PORT" is the collector, and its path the usual one; with a path it is what it says. */
static void split(struct traces *traces)
{
        const char *host = strstr(traces->collector, "://") + 3;
        size_t n = (size_t)(host - traces->collector) + strcspn(host, "/");
        const char *path = traces->collector + n;

        (void)snprintf(traces->base, sizeof(traces->base), "%.*s", (int)n, traces->collector);
        (void)snprintf(traces->path, sizeof(traces->path), "%s", path[0] && path[1] ? path : "/v1/traces");
}

/* Only the workers may write there: root, or the user that they run as. */
static int open_socket(const struct agent *agent, struct err *err)
{
        struct sockaddr_un at = { .sun_family = AF_UNIX };
        const struct passwd *user = geteuid() == 0 ? getpwnam(agent->settings->user) : NULL;
        _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        (void)snprintf(at.sun_path, sizeof(at.sun_path), "%.*s/spans.sock", (int)sizeof(at.sun_path) - 16, agent->dir);
        (void)unlink(at.sun_path);
        if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || chmod(at.sun_path, 0600) < 0 ||
            (user && chown(at.sun_path, user->pw_uid, user->pw_gid) < 0) ||
            epoll_ctl(agent->wake, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN }) < 0)
                return err_set(err, -errno, "traces: %s", at.sun_path);
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ BUFFER }, sizeof(int));
        return TAKE_FD(fd);
}

int traces_set(struct agent *agent, struct err *err)
{
        const struct settings *settings = agent->settings;
        struct traces *traces = agent->traces;

        if (traces && !strcmp(traces->collector, settings->traces))
                return 0;
        traces_done(agent);
        if (!*settings->traces || agent->options->is_check)
                return 0;
        traces = calloc(1, sizeof(*traces));
        if (!traces)
                return err_set(err, -ENOMEM, "traces");
        agent->traces = traces;
        memcpy(traces->collector, settings->traces, sizeof(traces->collector));
        split(traces);
        traces->spans = json_array();
        traces->fd = open_socket(agent, err);
        if (traces->fd >= 0)
                return 0;
        traces_done(agent);
        return -EIO;
}

/* ---- spans ---------------------------------------------------------------------------------------------------- */

void traces_hear(struct agent *agent)
{
        struct traces *traces = agent->traces;
        static char line[LINE]; /* large; the agent's one thread's */
        ssize_t n = 0;

        for (int i = 0; traces && i < AT_ONCE && n >= 0; i++) {
                n = recv(traces->fd, line, sizeof(line), 0);
                if (n <= 0)
                        continue;
                if (json_array_size(traces->spans) >= SPANS_MOST || span_read(line, (size_t)n, traces->spans) != NULL)
                        traces->n_lost++;
        }
}

static void on_taken(void *context, const struct http_answer *answer)
{
        struct agent *agent = context;
        struct traces *traces = agent->traces;
        bool is_failing = answer->code < 0 || answer->status / 100 != 2;

        traces->call = NULL;
        if (is_failing && !traces->is_failing && answer->code < 0)
                agent_log(agent, "traces: %s: %s; spans are lost until it takes them", traces->collector, answer->why);
        else if (is_failing && !traces->is_failing)
                agent_log(agent, "traces: %s answers %ld; spans are lost until it takes them", traces->collector,
                          answer->status);
        if (!is_failing && traces->is_failing)
                agent_log(agent, "traces: %s takes spans again", traces->collector);
        traces->is_failing = is_failing;
}

static void send_spans(struct agent *agent, struct traces *traces)
{
        json_t *body = span_wrap(traces->spans, "sublet-route", SUBLET_VERSION);
        char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

        json_decref(body);
        (void)json_array_clear(traces->spans);
        if (text)
                (void)agent_call(agent, "POST", traces->base, traces->path, text, CALL_LIMIT, on_taken, agent,
                                 &traces->call);
        free(text);
        if (traces->n_lost)
                agent_log(agent, "traces: the spans of %zu requests were lost: too many at once", traces->n_lost);
        traces->n_lost = 0;
}

void traces_tick(struct agent *agent)
{
        struct traces *traces = agent->traces;

        if (!traces || !agent_is_due(agent, traces->at))
                return;
        traces->at = agent->now + EVERY;
        agent_due(agent, traces->at);
        traces_hear(agent);
        if (json_array_size(traces->spans) && !traces->call)
                send_spans(agent, traces);
}
