/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: a listener, connections, calls. A call lives from its headers until nghttp2 closes its stream. Its answer
 * is made when the body is complete, and sent as the peer's windows allow.
 */
#include "kube/plugin/grpc_inside.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
        BACKLOG = 16,
};

/* ---- calls ---- */

static struct call *call_of(nghttp2_session *session, int32_t stream)
{
        return nghttp2_session_get_stream_user_data(session, stream);
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
        struct connection *connection = user;
        struct call *call;

        if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
                return 0;
        if (connection->n_calls == GRPC_CALLS)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        call = calloc(1, sizeof(*call));
        if (!call)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        call->connection = connection;
        call->stream = frame->hd.stream_id;
        call->next = connection->calls;
        connection->calls = call;
        connection->n_calls++;
        (void)nghttp2_session_set_stream_user_data(session, call->stream, call);
        return 0;
}

static bool is_text(const uint8_t *data, size_t size, const char *text)
{
        return size == strlen(text) && !memcmp(data, text, size);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *user)
{
        static const char type[] = "application/grpc";
        struct call *call = call_of(session, frame->hd.stream_id);

        (void)flags;
        (void)user;
        if (!call || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
                return 0;
        if (is_text(name, name_size, ":method"))
                call->is_post = is_text(value, value_size, "POST");
        if (is_text(name, name_size, "content-type"))
                call->is_grpc = value_size >= strlen(type) && !memcmp(value, type, strlen(type));
        if (is_text(name, name_size, ":path") && value_size < sizeof(call->path)) {
                memcpy(call->path, value, value_size);
                call->path[value_size] = '\0';
        }
        return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t size,
                   void *user)
{
        struct connection *connection = user;
        struct call *call = call_of(session, stream);

        (void)flags;
        if (!call || call->refused)
                return 0;
        if (connection->n_bodies + size > GRPC_BODIES_MAX)
                call->refused = -ENOMEM;
        else
                call->refused = grpc_body_add(&call->in, data, size);
        if (call->refused == 0) {
                connection->n_bodies += size;
                return 0;
        }
        connection->n_bodies -= call->in.size;
        grpc_body_done(&call->in);
        return 0;
}

static void choose_method(struct call *call)
{
        const struct grpc_server *server = call->connection->server;

        for (size_t i = 0; i < server->n_methods; i++)
                if (!strcmp(server->methods[i].path, call->path))
                        call->method = &server->methods[i];
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
        struct call *call = call_of(session, frame->hd.stream_id);

        (void)user;
        if (!call || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
                return 0;
        if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) || call->method)
                return 0;
        choose_method(call);
        return call_answer(call) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static void call_free(struct call *call)
{
        call->connection->n_bodies -= call->in.size;
        call->connection->n_calls--;
        grpc_body_done(&call->in);
        grpc_body_done(&call->out);
        free(call);
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
        struct connection *connection = user;
        struct call *call = call_of(session, stream);

        (void)code;
        if (!call)
                return 0;
        for (struct call **at = &connection->calls; *at; at = &(*at)->next) {
                if (*at != call)
                        continue;
                *at = call->next;
                break;
        }
        (void)nghttp2_session_set_stream_user_data(session, stream, NULL);
        call_free(call);
        return 0;
}

/* ---- connections ---- */

static void connection_free(struct connection *connection)
{
        struct grpc_server *server = connection->server;
        struct call *call;

        for (struct connection **at = &server->connections; *at; at = &(*at)->next) {
                if (*at != connection)
                        continue;
                *at = connection->next;
                break;
        }
        server->n_connections--;
        channel_done(&connection->channel); /* this closes no stream: the calls are freed below */
        while ((call = connection->calls) != NULL) {
                connection->calls = call->next;
                call_free(call);
        }
        free(connection);
}

static void on_over(struct channel *channel)
{
        connection_free((struct connection *)channel);
}

static int session_new(void *user, nghttp2_session **ret)
{
        const nghttp2_settings_entry settings[] = { { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_CALLS } };
        nghttp2_session_callbacks *callbacks;
        nghttp2_option *option = NULL;
        int r = channel_callbacks(&callbacks);

        if (r < 0)
                return r;
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        if (nghttp2_option_new(&option) == 0) {
                nghttp2_option_set_no_http_messaging(option, 1);
                r = nghttp2_session_server_new2(ret, callbacks, user, option) == 0 ? 0 : -ENOMEM;
                nghttp2_option_del(option);
        } else {
                r = -ENOMEM;
        }
        nghttp2_session_callbacks_del(callbacks);
        if (r == 0 && nghttp2_submit_settings(*ret, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) != 0) {
                nghttp2_session_del(*ret);
                r = -ENOMEM;
        }
        return r;
}

/* Takes fd, also on failure. */
static int connection_new(struct grpc_server *server, int taken)
{
        _cleanup_(closep) int fd = taken;
        _cleanup_(freep) struct connection *connection = calloc(1, sizeof(*connection));
        nghttp2_session *session;
        int r;

        if (!connection)
                return -ENOMEM;
        r = session_new(connection, &session);
        if (r < 0)
                return r;
        connection->server = server;
        connection->channel.over = on_over;
        r = channel_init(&connection->channel, server->loop, fd, session, EPOLLIN);
        if (r < 0) {
                nghttp2_session_del(session);
                return r;
        }
        (void)TAKE_FD(fd);
        connection->next = server->connections;
        server->connections = connection;
        server->n_connections++;
        (void)channel_pump(&TAKE(connection)->channel);
        return 0;
}

static void on_connect(struct loop_source *source, uint32_t events)
{
        struct grpc_server *server = source->context;
        int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        (void)events;
        if (fd < 0)
                return;
        if (server->n_connections == GRPC_CONNECTIONS)
                (void)close(fd); /* G3 */
        else
                (void)connection_new(server, fd);
}

/* ---- the server ---- */

static int listen_at(struct grpc_server *server, const char *path, struct err *err)
{
        int fd = socket_listen(SOCK_STREAM | SOCK_NONBLOCK, 0600, "%s", path), r;

        if (fd < 0)
                return err_set(err, fd, "listening at %s", path);
        (void)snprintf(server->path, sizeof(server->path), "%s", path);
        server->listener = (struct loop_source){ .fd = fd, .ready = on_connect, .context = server };
        r = loop_add(server->loop, &server->listener, EPOLLIN);
        if (r < 0)
                (void)close(fd);
        return r < 0 ? err_set(err, r, "listening at %s", path) : 0;
}

int grpc_server_new(struct loop *loop, const char *path, const struct grpc_method *methods, size_t n_methods,
                    void *context, struct grpc_server **ret, struct err *err)
{
        _cleanup_(freep) struct grpc_server *server = calloc(1, sizeof(*server));
        int r;

        if (!server)
                return err_set(err, -ENOMEM, "listening at %s", path);
        server->loop = loop;
        server->methods = methods;
        server->n_methods = n_methods;
        server->context = context;
        r = listen_at(server, path, err);
        if (r < 0)
                return r;
        *ret = TAKE(server);
        return 0;
}

struct grpc_server *grpc_server_free(struct grpc_server *server)
{
        if (!server)
                return NULL;
        while (server->connections)
                connection_free(server->connections);
        loop_drop(server->loop, &server->listener);
        (void)close(server->listener.fd);
        (void)unlink(server->path);
        free(server);
        return NULL;
}

void grpc_server_push(struct grpc_server *server)
{
        struct connection *next;

        for (struct connection *connection = server->connections; connection; connection = next) {
                next = connection->next;
                for (struct call *call = connection->calls; call; call = call->next) {
                        if (!call->is_stream)
                                continue;
                        call->is_stale = true;
                        (void)nghttp2_session_resume_data(connection->channel.session, call->stream);
                }
                (void)channel_pump(&connection->channel);
        }
}

size_t grpc_server_streams(const struct grpc_server *server)
{
        size_t n = 0;

        for (const struct connection *connection = server->connections; connection; connection = connection->next)
                for (const struct call *call = connection->calls; call; call = call->next)
                        n += call->is_stream;
        return n;
}
