/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd in our loop: its epoll descriptor, which holds its sockets, is one of our sources. A call that has to
 * wait is suspended, and resumed after http_wake when its answer is there. */
#include "daemon/api/http.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "daemon/api/api.h"
#include "daemon/api/credentials.h"
#include "daemon/state/events.h"
#include "net/http/server.h"
#include "net/http/stall.h"
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
        CONNECTIONS_MAX = 1024, /* of a listener */
        SPARE = 64,             /* of these, at the socket: for root and the daemon's own user only */
        CONNECTIONS_EACH = 64,  /* of a user but those two, or of an address */
        BODIES = 16 << 20,      /* all bodies of a listener together */
        HEAD_SEC = 10,
        BODY_SEC = 10,
        REST_SEC = 30,
        ANSWER_SEC = 60,   /* for the client to take it */
        BLOCK = 32 * 1024, /* of a stream */
        QUIET_SEC = 15,    /* a follower gets an empty line that often: it shows whether the peer is still there */
};

struct listener {
        struct http *http;
        struct http_server server;
        struct MHD_Daemon *daemon;
        struct loop_source source;
        struct stall stall; /* of the Unix socket, where descriptors may come with the bytes */
        bool is_tcp;
};

struct http {
        struct daemon *daemon;
        struct listener listeners[2];
        size_t n_listeners;
        struct call *calls;
        struct loop_timer timer, tick;
        struct credentials credentials;           /* of the TCP listener */
        char socket_path[128], host[SOCKET_HOST]; /* host: what --listen named, without its port */
};

struct call {
        struct http_server_call call; /* first */
        struct call *next;
        struct http *http;
        struct api_request request;
        struct api_response response;
        size_t sent; /* of response.body, to a follower */
        nsec spoke_at;
        bool is_tcp, is_answered, is_suspended;
};

static bool uid_of(struct MHD_Connection *connection, uid_t *ret)
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct ucred who;

        if (!info || socket_peer(info->connect_fd, &who) < 0)
                return false;
        *ret = who.uid;
        return true;
}

static bool know_peer(struct call *call)
{
        if (call->is_tcp) {
                call->request.may_only_ask = call->request.sees_all = true;
                call->request.uid = (uid_t)-1;
                return true;
        }
        if (!uid_of(call->call.connection, &call->request.uid))
                return false;
        call->request.sees_all = daemon_is_master(call->http->daemon, call->request.uid);
        return true;
}

static bool uid_is_trusted(void *context, uid_t uid)
{
        const struct listener *listener = context;

        return daemon_is_master(listener->http->daemon, uid);
}

/* Against DNS rebinding: a foreign web page must not reach us under a host name of its own. Addresses and our names are
 * fine. */
static bool is_our_name(const struct http *http, const char *host)
{
        char name[256], own[256] = "";
        unsigned char address[16];
        size_t n;

        if (!host)
                return true; /* HTTP/1.0 */
        (void)snprintf(name, sizeof(name), "%s", host + (host[0] == '['));
        n = host[0] == '[' ? strcspn(name, "]") : strcspn(name, ":");
        name[n] = '\0';
        (void)gethostname(own, sizeof(own) - 1);
        return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1 ||
               !strcasecmp(name, "localhost") || !strcasecmp(name, own) || !strcasecmp(name, http->host);
}

static struct MHD_Response *asset_response(struct call *call)
{
        const struct page_asset *asset = call->response.asset;
        const char *known = MHD_lookup_connection_value(call->call.connection, MHD_HEADER_KIND, "If-None-Match");
        bool is_known = known && !strcmp(known, asset->etag);
        struct MHD_Response *response = MHD_create_response_from_buffer(
                is_known ? 0 : asset->size, (void *)(uintptr_t)asset->data, MHD_RESPMEM_PERSISTENT);

        if (!response)
                return NULL;
        call->response.status = is_known ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
        (void)MHD_add_response_header(response, "ETag", asset->etag);
        (void)MHD_add_response_header(response, "Content-Security-Policy", PAGE_POLICY);
        (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
        return response;
}

static void suspend(struct call *call)
{
        call->is_suspended = true;
        call->call.takes_its_time = true;
        MHD_suspend_connection(call->call.connection);
}

/* For a follower: past events, then new ones, and now and then an empty line. */
static ssize_t stream_events(void *context, uint64_t position, char *buffer, size_t room)
{
        struct call *call = context;
        size_t left = call->response.size - call->sent, n;
        nsec now = clock_now();

        (void)position;
        if (left) {
                n = left < room ? left : room;
                memcpy(buffer, call->response.body + call->sent, n);
                call->sent += n;
        } else
                n = api_follow(call->http->daemon, &call->response, buffer, room);
        if (!n && now - call->spoke_at > QUIET_SEC * NSEC_PER_SEC)
                buffer[n++] = '\n';
        if (n)
                call->spoke_at = now;
        else
                suspend(call);
        return (ssize_t)n;
}

static struct MHD_Response *response_of(struct call *call)
{
        struct api_response *answer = &call->response;
        struct MHD_Response *response;

        if (answer->asset)
                return asset_response(call);
        if (answer->wait == API_WAIT_EVENTS)
                response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_events, call, NULL);
        else
                return http_response(TAKE(answer->body), answer->size);
        if (response)
                (void)MHD_add_response_header(response, "Cache-Control", "no-store");
        return response;
}

static enum MHD_Result call_send(struct call *call)
{
        struct MHD_Response *response = response_of(call);

        call->spoke_at = clock_now();
        if (response)
                (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
        if (response && call->response.status == API_UNAUTHORIZED)
                (void)MHD_add_response_header(response, "WWW-Authenticate",
                                              "Basic realm=\"sublet\", charset=\"UTF-8\"");
        return http_response_send(call->call.connection, response, (unsigned int)call->response.status,
                                  call->response.type);
}

static enum MHD_Result take_argument(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
        struct api_request *request = context;

        (void)kind;
        if (request->n_arguments == API_ARGUMENTS)
                return MHD_NO;
        request->arguments[request->n_arguments++] = (struct api_argument){ name, value };
        return MHD_YES;
}

static void call_answer(struct call *call, const char *method, const char *path)
{
        const char *host = MHD_lookup_connection_value(call->call.connection, MHD_HEADER_KIND, "Host");
        int status = 0;
        const char *refusal =
                call->is_tcp ? credentials_refusal(&call->http->credentials, call->call.connection, path, &status) :
                               NULL;

        call->is_answered = true;
        call->request.path = path;
        call->request.method = method;
        call->request.body = call->call.body.text;
        call->request.body_size = call->call.body.size;
        (void)MHD_get_connection_values(call->call.connection, MHD_GET_ARGUMENT_KIND, take_argument, &call->request);
        if (call->call.refused == MHD_HTTP_CONTENT_TOO_LARGE)
                api_error(&call->response, API_TOO_LARGE, "the body is larger than %d bytes", API_BODY_MAX);
        else if (call->call.refused)
                api_error(&call->response, (int)call->call.refused, "%s: try again",
                          call->call.refused == MHD_HTTP_TOO_MANY_REQUESTS ? "other calls of yours hold too much" :
                                                                             "too many large calls at once");
        else if (refusal)
                api_error(&call->response, status, "%s", refusal);
        else if (!know_peer(call))
                api_error(&call->response, API_FORBIDDEN, "the caller is not known");
        else if (call->is_tcp && !is_our_name(call->http, host))
                api_error(&call->response, API_FORBIDDEN, "'%.100s' is not this machine's name: ask by its address",
                          host);
        else
                api_answer(call->http->daemon, &call->request, &call->response);
        daemon_heartbeat(call->http->daemon); /* many calls at once must not look like a dead daemon */
}

static void on_begin(void *context, struct http_server_call *of)
{
        struct listener *listener = context;
        struct call *call = (struct call *)of;

        call->http = listener->http;
        call->is_tcp = listener->is_tcp;
        call->next = call->http->calls;
        call->http->calls = call;
}

static enum MHD_Result on_call(void *context, struct http_server_call *of, const char *method, const char *path)
{
        struct call *call = (struct call *)of;

        (void)context;
        if (!call->is_answered)
                call_answer(call, method, path);
        if (call->response.wait == API_WAIT_EVENTS || call->response.wait == API_WAIT_NOT) {
                call->call.takes_its_time = call->response.wait == API_WAIT_EVENTS;
                return call_send(call);
        }
        suspend(call);
        return MHD_YES;
}

static void on_end(void *context, struct http_server_call *of)
{
        struct call *call = (struct call *)of, **at;

        (void)context;
        for (at = &call->http->calls; *at != call; at = &(*at)->next)
                ;
        *at = call->next;
        api_done(&call->response);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
        struct listener *listener = source->context;

        (void)events;
        stall_pump(&listener->stall, listener->daemon);
}

static bool may_go_on(struct call *call)
{
        if (call->response.wait != API_WAIT_EVENTS)
                return api_continue(call->http->daemon, &call->response);
        return event_after(call->http->daemon, call->response.event_id) ||
               clock_now() - call->spoke_at > QUIET_SEC * NSEC_PER_SEC;
}

static void on_woken(struct loop_timer *timer)
{
        struct http *http = timer->context;

        for (struct call *call = http->calls; call; call = call->next) {
                if (!call->is_suspended || !may_go_on(call))
                        continue;
                daemon_heartbeat(http->daemon);
                call->is_suspended = false;
                MHD_resume_connection(call->call.connection);
        }
        for (size_t i = 0; i < http->n_listeners; i++)
                stall_pump(&http->listeners[i].stall, http->listeners[i].daemon);
}

static void on_tick(struct loop_timer *timer)
{
        struct http *http = timer->context;

        for (size_t i = 0; i < http->n_listeners; i++)
                http_guard_tick(http->listeners[i].server.guard, clock_now());
}

void http_wake(struct http *http)
{
        if (http)
                loop_timer_set(http->daemon->loop, &http->timer, 0, 0);
}

static int guard_open(struct listener *listener, struct err *err)
{
        const struct http_limits limits = { .connections = CONNECTIONS_MAX,
                                            .connections_each = CONNECTIONS_EACH,
                                            .spare = listener->is_tcp ? 0 : SPARE,
                                            .bodies = BODIES,
                                            .head = HEAD_SEC * NSEC_PER_SEC,
                                            .rest = REST_SEC * NSEC_PER_SEC,
                                            .body = BODY_SEC * NSEC_PER_SEC,
                                            .answer = ANSWER_SEC * NSEC_PER_SEC };
        int r = http_guard_new(&limits, &listener->server.guard);

        return r < 0 ? err_set(err, r, "the HTTP server") : 0;
}

/* Takes the socket over. */
static int listen_on(struct http *http, int fd, bool is_tcp, struct err *err)
{
        struct listener *listener = &http->listeners[http->n_listeners];
        struct MHD_OptionItem more[CREDENTIALS_OPTIONS] = { { MHD_OPTION_END, 0, NULL } };
        bool has_tls = is_tcp && credentials_options(&http->credentials, more);
        const union MHD_DaemonInfo *info;
        int r;

        *listener = (struct listener){ .http = http, .is_tcp = is_tcp };
        listener->server = (struct http_server){ .flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
                                                          (has_tls ? (unsigned int)MHD_USE_TLS : 0),
                                                 .connections = CONNECTIONS_MAX,
                                                 .idle_sec = REST_SEC,
                                                 .body_most = API_BODY_MAX,
                                                 .call_size = sizeof(struct call),
                                                 .uid_is_trusted = uid_is_trusted,
                                                 .context = listener,
                                                 .begin = on_begin,
                                                 .answer = on_call,
                                                 .end = on_end };
        r = guard_open(listener, err);
        if (r < 0) {
                (void)close(fd);
                return r;
        }
        listener->daemon = http_server_start(&listener->server, fd, more);
        if (!listener->daemon) {
                listener->server.guard = http_guard_free(listener->server.guard);
                return err_say(err, -EIO, "the HTTP server does not start%s",
                               has_tls ? ": is --cert a certificate, and --key its key?" : "");
        }
        http->n_listeners++;
        info = MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        listener->source =
                (struct loop_source){ .fd = info ? info->epoll_fd : -1, .ready = on_ready, .context = listener };
        r = loop_add(http->daemon->loop, &listener->source, EPOLLIN);
        return r < 0 ? err_set(err, r, "the HTTP server") : 0;
}

/* No call of the API has descriptors. */
static int open_unix(struct http *http, struct err *err)
{
        bool refuses = false;
        int fd, r;

        (void)snprintf(http->socket_path, sizeof(http->socket_path), "%s/sublet.sock", http->daemon->settings.dir);
        fd = socket_listen_for_bytes(SOCK_STREAM | SOCK_NONBLOCK, http->daemon->settings.group, http->socket_path,
                                     &refuses);
        if (fd < 0)
                return err_set(err, fd, "listening on %s", http->socket_path);
        r = listen_on(http, fd, false, err);
        if (r == 0 && !refuses && (r = stall_open(&http->listeners[0].stall)) < 0)
                err_set(err, r, "the HTTP server");
        return r;
}

static int open_tcp(struct http *http, const char *where, struct err *err)
{
        char address[SOCKET_HOST + 16];
        unsigned int port;
        int fd, r;

        (void)snprintf(address, sizeof(address), "%s%s", where[0] == ':' ? "127.0.0.1" : "", where);
        fd = socket_listen_tcp(address, http->host, &port, err);
        if (fd == -EADDRINUSE)
                return err_say(err, fd, "--listen %s: another process has this port: end it, or choose another port",
                               where);
        if (fd < 0 || (r = listen_on(http, fd, true, err)) < 0)
                return fd < 0 ? fd : r;
        (void)snprintf(http->daemon->url, sizeof(http->daemon->url),
                       strchr(http->host, ':') ? "http%s://[%s]:%u/" : "http%s://%s:%u/",
                       http->credentials.certificate ? "s" : "", http->host, port);
        return 0;
}

int http_open(struct daemon *daemon, struct http **ret, struct err *err)
{
        struct http *http = calloc(1, sizeof(*http));
        int r;

        if (!http)
                return err_set(err, -ENOMEM, "the HTTP server");
        http->daemon = daemon;
        http->timer = (struct loop_timer){ .due = on_woken, .context = http };
        http->tick = (struct loop_timer){ .due = on_tick, .context = http };
        loop_timer_set(daemon->loop, &http->tick, NSEC_PER_SEC, NSEC_PER_SEC);
        r = credentials_read(&http->credentials, &daemon->settings, err);
        if (r == 0)
                r = open_unix(http, err);
        if (r == 0 && daemon->settings.listen)
                r = open_tcp(http, daemon->settings.listen, err);
        if (r < 0) {
                (void)http_close(http);
                return r;
        }
        *ret = http;
        return 0;
}

/* Followers are cut off; a suspended call must be resumed before its server may end. */
struct http *http_close(struct http *http)
{
        if (!http)
                return NULL;
        loop_timer_drop(http->daemon->loop, &http->timer);
        loop_timer_drop(http->daemon->loop, &http->tick);
        for (struct call *call = http->calls; call; call = call->next)
                if (call->is_suspended)
                        MHD_resume_connection(call->call.connection);
        for (size_t i = 0; i < http->n_listeners; i++) {
                loop_drop(http->daemon->loop, &http->listeners[i].source);
                stall_stop(&http->listeners[i].stall, http->listeners[i].daemon);
                (void)http_guard_free(http->listeners[i].server.guard);
        }
        (void)unlink(http->socket_path);
        credentials_done(&http->credentials);
        free(http);
        return NULL;
}
