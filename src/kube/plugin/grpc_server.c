/*
 * The server: a listener, connections, calls. A call lives from its headers until nghttp2 closes its stream. Its answer is
 * made when the body is complete, and sent as the peer's windows allow.
 */
#include "kube/plugin/grpc_inside.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
        HEADER_MAX = 128,
        BACKLOG = 16,
        CODE = 4,     /* text of a status */
        QUOTED = 600, /* a percent-encoded message, cut off there */
};

struct call {
        struct call *next;
        struct connection *connection;
        const struct grpc_method *method;
        int32_t stream;
        char path[HEADER_MAX];
        bool is_post, is_grpc;
        bool is_stream; /* being answered with message after message */
        bool is_stale;  /* there is a newer message than the one in `out` */
        int refused;    /* -errno: the rest of its body is dropped; 0 */
        struct grpc_body in, out;
        size_t n_out; /* sent of `out` */
};

struct connection {
        struct channel channel; /* first: nghttp2's user data is the channel */
        struct connection *next;
        struct grpc_server *server;
        struct call *calls;
        size_t n_calls, n_bodies; /* bytes */
};

struct grpc_server {
        struct loop *loop;
        struct loop_source listener;
        char path[SOCKET_PATH];
        const struct grpc_method *methods;
        size_t n_methods;
        void *context;
        struct connection *connections;
        size_t n_connections;
};

/* ---- answers ---- */

static void make_status(enum grpc_status status, const char *text, char code[static CODE], char quoted[static QUOTED])
{
        (void)snprintf(code, CODE, "%d", (int)status);
        grpc_text_quote(text, quoted, QUOTED);
}

/* An answer without a message. */
static int answer_status(struct call *call, enum grpc_status status, const char *text)
{
        char code[CODE], quoted[QUOTED];

        make_status(status, text, code, quoted);
        const nghttp2_nv headers[] = {
                GRPC_HEADER(":status", "200"),
                GRPC_HEADER("content-type", "application/grpc"),
                GRPC_HEADER("grpc-status", code),
                GRPC_HEADER("grpc-message", quoted),
        };
        return nghttp2_submit_response(call->connection->channel.session, call->stream, headers, ARRAY_SIZE(headers),
                                       NULL);
}

/* The trailers after the last message. */
static int end_with(struct call *call, enum grpc_status status, const char *text, uint32_t *flags)
{
        char code[CODE], quoted[QUOTED];

        make_status(status, text, code, quoted);
        const nghttp2_nv trailers[] = { GRPC_HEADER("grpc-status", code), GRPC_HEADER("grpc-message", quoted) };

        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        return nghttp2_submit_trailer(call->connection->channel.session, call->stream, trailers, ARRAY_SIZE(trailers));
}

/* Calls the method and frames its message into `out`. 0; -errno with err. */
static int make_message(struct call *call, struct err *err)
{
        _cleanup_(grpc_message_done) struct grpc_message call_answer = { 0 };
        struct grpc_message request;
        int r;

        (void)grpc_body_message(&call->in, &request); /* call_answer has checked it */
        r = call->method->call(call->connection->server->context, &request, &call_answer, err);
        if (r < 0)
                return r;
        grpc_body_done(&call->out);
        call->n_out = 0;
        r = grpc_body_frame(&call_answer, &call->out);
        if (r < 0)
                return err_say(err, r, "the answer has %zu bytes, and a message at most %d", call_answer.size,
                               GRPC_MESSAGE_MAX);
        return 0;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *data, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
        struct call *call = source->ptr;
        struct err err = { 0 };
        size_t n;
        int r;

        (void)session;
        (void)stream;
        (void)user;
        if (call->n_out == call->out.size && call->is_stale) { /* G4 */
                call->is_stale = false;
                r = make_message(call, &err);
                if (r < 0)
                        return end_with(call, grpc_status_of(r), err.text, flags) != 0 ? NGHTTP2_ERR_CALLBACK_FAILURE :
                                                                                         0;
        }
        n = call->out.size - call->n_out < room ? call->out.size - call->n_out : room;
        if (n == 0 && call->is_stream)
                return NGHTTP2_ERR_DEFERRED;
        if (n)
                memcpy(data, call->out.data + call->n_out, n);
        call->n_out += n;
        if (call->n_out == call->out.size && !call->is_stream && end_with(call, GRPC_OK, "", flags) != 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        return (ssize_t)n;
}

static int answer_messages(struct call *call)
{
        static const char type[] = "application/grpc";
        const nghttp2_nv headers[] = { GRPC_HEADER(":status", "200"), GRPC_HEADER("content-type", type) };
        const nghttp2_data_provider provider = { .source.ptr = call, .read_callback = on_read };

        call->is_stream = call->method->is_stream;
        return nghttp2_submit_response(call->connection->channel.session, call->stream, headers, ARRAY_SIZE(headers),
                                       &provider);
}

/* Answers, once the body is complete or refused. */
static int call_answer(struct call *call)
{
        struct grpc_message request;
        struct err err = { 0 };
        enum grpc_status status;
        int r;

        if (!call->is_post || !call->is_grpc) {
                const nghttp2_nv headers[] = { GRPC_HEADER(":status", "415") };

                return nghttp2_submit_response(call->connection->channel.session, call->stream, headers, 1, NULL);
        }
        if (!call->method)
                return answer_status(call, GRPC_UNIMPLEMENTED, "unknown method");
        if (call->refused)
                return answer_status(call, GRPC_RESOURCE_EXHAUSTED, "the message is too large");
        status = grpc_body_message(&call->in, &request);
        if (status != GRPC_OK)
                return answer_status(call, status,
                                     status == GRPC_UNIMPLEMENTED ? "compression is not supported" :
                                                                    "the body is not one message");
        r = make_message(call, &err);
        if (r < 0)
                return answer_status(call, grpc_status_of(r), err.text);
        return answer_messages(call);
}

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
