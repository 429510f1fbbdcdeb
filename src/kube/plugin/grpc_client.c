/* The asking side: one unary question on a connection of its own. */
#include "kube/plugin/grpc_inside.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

struct grpc_ask {
        struct channel channel; /* first: nghttp2's user data is the channel */
        struct loop_timer timer;
        struct grpc_body out;
        size_t n_out;
        int status; /* -1: not said yet */
        char text[256];
        void (*done)(void *context, int status, const char *text);
        void *context;
};

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *data, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
        struct grpc_ask *ask = source->ptr;
        size_t n = ask->out.size - ask->n_out < room ? ask->out.size - ask->n_out : room;

        (void)session;
        (void)stream;
        (void)user;
        memcpy(data, ask->out.data + ask->n_out, n);
        ask->n_out += n;
        if (ask->n_out == ask->out.size)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)n;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *user)
{
        struct grpc_ask *ask = user;

        (void)session;
        (void)frame;
        (void)flags;
        if (name_size == 11 && !memcmp(name, "grpc-status", 11) && value_size && value_size < 4) {
                ask->status = 0;
                for (size_t i = 0; i < value_size; i++)
                        ask->status = value[i] >= '0' && value[i] <= '9' ? ask->status * 10 + value[i] - '0' : 99;
        }
        if (name_size == 12 && !memcmp(name, "grpc-message", 12))
                (void)snprintf(ask->text, sizeof(ask->text), "%.*s", value_size < 255 ? (int)value_size : 255,
                               (const char *)value);
        return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
        struct grpc_ask *ask = user;

        (void)session;
        (void)stream;
        (void)code;
        ask->channel.is_over = true;
        return 0;
}

static void on_over(struct channel *channel)
{
        struct grpc_ask *ask = (struct grpc_ask *)channel;

        loop_drop(channel->loop, &channel->source);
        loop_timer_drop(channel->loop, &ask->timer);
        if (ask->status < 0)
                ask->done(ask->context, GRPC_UNAVAILABLE, "the connection ended without an answer");
        else
                ask->done(ask->context, ask->status, ask->text);
}

static void on_late(struct loop_timer *timer)
{
        struct grpc_ask *ask = timer->context;

        ask->status = GRPC_DEADLINE_EXCEEDED;
        (void)snprintf(ask->text, sizeof(ask->text), "no answer within %d s", GRPC_SECONDS);
        on_over(&ask->channel);
}

static int connect_to(const char *path, struct err *err)
{
        int fd = socket_connect(SOCK_STREAM | SOCK_NONBLOCK, 0, "%s", path);

        return fd < 0 ? err_set(err, fd, "%s", path) : fd;
}

static int session_new(void *user, nghttp2_session **ret)
{
        nghttp2_session_callbacks *callbacks;
        int r = channel_callbacks(&callbacks);

        if (r < 0)
                return r;
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        r = nghttp2_session_client_new(ret, callbacks, user) == 0 ? 0 : -ENOMEM;
        nghttp2_session_callbacks_del(callbacks);
        return r;
}

static int submit(struct grpc_ask *ask, const char *path)
{
        static const char type[] = "application/grpc";
        const nghttp2_nv headers[] = {
                GRPC_HEADER(":method", "POST"), GRPC_HEADER(":scheme", "http"),
                GRPC_HEADER(":path", path),     GRPC_HEADER(":authority", "localhost"),
                GRPC_HEADER("te", "trailers"),  GRPC_HEADER("content-type", type),
        };
        const nghttp2_data_provider provider = { .source.ptr = ask, .read_callback = on_read };
        nghttp2_session *session = ask->channel.session;

        if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0) != 0 ||
            nghttp2_submit_request(session, NULL, headers, ARRAY_SIZE(headers), &provider, NULL) < 0)
                return -ENOMEM;
        return 0;
}

int grpc_ask_new(struct loop *loop, const char *socket, const char *path, const struct grpc_message *request,
                 void (*done)(void *context, int status, const char *text), void *context, struct grpc_ask **ret,
                 struct err *err)
{
        _cleanup_(closep) int fd = connect_to(socket, err);
        struct grpc_ask *ask;
        nghttp2_session *session;

        if (fd < 0)
                return fd;
        ask = calloc(1, sizeof(*ask));
        if (!ask || grpc_body_frame(request, &ask->out) < 0 || session_new(ask, &session) < 0) {
                if (ask)
                        grpc_body_done(&ask->out);
                free(ask);
                return err_set(err, -ENOMEM, "asking %s", socket);
        }
        ask->status = -1;
        ask->done = done;
        ask->context = context;
        ask->channel.over = on_over;
        ask->timer = (struct loop_timer){ .due = on_late, .context = ask };
        if (channel_init(&ask->channel, loop, fd, session, EPOLLIN | EPOLLOUT) < 0 || submit(ask, path) < 0) {
                (void)TAKE_FD(fd); /* the channel's */
                (void)grpc_ask_free(ask);
                return err_set(err, -ENOMEM, "asking %s", socket);
        }
        (void)TAKE_FD(fd);
        loop_timer_set(loop, &ask->timer, GRPC_SECONDS * NSEC_PER_SEC, 0);
        *ret = ask;
        return 0;
}

struct grpc_ask *grpc_ask_free(struct grpc_ask *ask)
{
        if (!ask)
                return NULL;
        loop_timer_drop(ask->channel.loop, &ask->timer);
        channel_done(&ask->channel);
        grpc_body_done(&ask->out);
        free(ask);
        return NULL;
}
