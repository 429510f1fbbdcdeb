/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/server.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

enum {
        STATUS_TOO_LARGE = 413,
        STATUS_BUSY = 503,
};

/* NULL: it was not taken in. */
static struct http_connection *connection_of(struct MHD_Connection *connection)
{
        return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

unsigned int http_server_reserve(struct http_server_call *call, size_t more)
{
        return http_guard_reserve(connection_of(call->connection), &call->reserved, more);
}

static void body_take(const struct http_server *server, struct http_server_call *call, const char *data, size_t size)
{
        size_t growth = buffer_growth(&call->body, size);

        if (size > server->body_most - call->body.size)
                call->refused = STATUS_TOO_LARGE;
        else if (!call->refused && growth)
                call->refused = http_server_reserve(call, growth);
        if (!call->refused && buffer_add(&call->body, data, size, server->body_most) < 0)
                call->refused = STATUS_BUSY;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
        const struct http_server *server = context;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;

                *state = http_guard_come(server->guard, fd, !(server->flags & MHD_USE_TLS), server->uid_is_trusted,
                                         server->context);
        } else {
                http_guard_go(*state);
                *state = NULL;
        }
}

static struct http_server_call *call_begin(const struct http_server *server, struct MHD_Connection *connection)
{
        struct http_server_call *call;

        if (!http_guard_phase(connection_of(connection), HTTP_READS_BODY) || !(call = calloc(1, server->call_size)))
                return NULL;
        call->connection = connection;
        if (server->begin)
                server->begin(server->context, call);
        return call;
}

static enum MHD_Result call_answer(const struct http_server *server, struct http_server_call *call, const char *method,
                                   const char *path)
{
        struct http_connection *connection = connection_of(call->connection);
        enum MHD_Result r;

        if (!http_guard_phase(connection, HTTP_IS_ANSWERED))
                return MHD_NO;
        call->takes_its_time = false;
        r = server->answer(server->context, call, !strcmp(method, "HEAD") ? "GET" : method, path);
        if (!call->takes_its_time)
                (void)http_guard_phase(connection, HTTP_TAKES_ANSWER);
        return r;
}

/* libmicrohttpd calls this with the head, with each piece of the body, at its end, and again after a suspension. */
static enum MHD_Result on_call(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *data, size_t *size, void **state)
{
        const struct http_server *server = context;
        struct http_server_call *call = *state;

        (void)version;
        if (!call) {
                *state = call_begin(server, connection);
                return *state ? MHD_YES : MHD_NO;
        }
        if (*size) {
                body_take(server, call, data, *size);
                *size = 0;
                return MHD_YES;
        }
        return call_answer(server, call, method, url);
}

static void on_done(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode how)
{
        const struct http_server *server = context;
        struct http_server_call *call = *state;

        (void)how;
        if (!call)
                return;
        server->end(server->context, call);
        http_guard_return(connection_of(connection), &call->reserved);
        (void)http_guard_phase(connection_of(connection), HTTP_RESTS);
        buffer_done(&call->body);
        free(call);
        *state = NULL;
}

struct MHD_Daemon *http_server_start(const struct http_server *server, int fd, const struct MHD_OptionItem *more)
{
        static const struct MHD_OptionItem none = { MHD_OPTION_END, 0, NULL };
        struct MHD_Daemon *daemon = MHD_start_daemon(
                server->flags, 0, NULL, NULL, on_call, (void *)(uintptr_t)server, MHD_OPTION_LISTEN_SOCKET, fd,
                MHD_OPTION_NOTIFY_COMPLETED, on_done, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
                MHD_OPTION_CONNECTION_LIMIT, server->connections, MHD_OPTION_CONNECTION_TIMEOUT, server->idle_sec,
                MHD_OPTION_ARRAY, more ? more : &none, MHD_OPTION_END);

        if (!daemon)
                (void)close(fd);
        return daemon;
}

struct MHD_Response *http_response(char *body, size_t size)
{
        struct MHD_Response *response = MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);

        if (response)
                (void)MHD_add_response_header(response, "Cache-Control", "no-store");
        else
                free(body);
        return response;
}

enum MHD_Result http_response_send(struct MHD_Connection *connection, struct MHD_Response *response,
                                   unsigned int status, const char *type)
{
        enum MHD_Result r;

        if (!response)
                return MHD_NO;
        if (status == MHD_HTTP_TOO_MANY_REQUESTS || status == MHD_HTTP_SERVICE_UNAVAILABLE)
                (void)MHD_add_response_header(response, "Retry-After", "1");
        (void)MHD_add_response_header(response, "Content-Type", type ? type : "application/json");
        r = MHD_queue_response(connection, status, response);
        MHD_destroy_response(response);
        return r;
}
