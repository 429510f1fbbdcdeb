/* SPDX-License-Identifier: Apache-2.0 */
/* The client: one unary call on its own connection. */
#include "kube/plugin/grpc_inside.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

struct grpc_call {
        struct channel channel; /* first: nghttp2's user data is the channel */
        struct loop_timer timer;
        struct grpc_body out;
        size_t n_out;
        int status; /* -1: not received yet */
        char text[256];
        void (*done)(void *context, int status, const char *text);
        void *context;
};

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *data, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
        struct grpc_call *call = source->ptr;
        size_t n = call->out.size - call->n_out < room ? call->out.size - call->n_out : room;

        (void)session;
        (void)stream;
        (void)user;
        memcpy(data, call->out.data + call->n_out, n);
        call->n_out += n;
        if (call->n_out == call->out.size)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)n;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *user)
{
        struct grpc_call *call = user;

        (void)session;
        (void)frame;
        (void)flags;
        if (name_size == 11 && !memcmp(name, "grpc-status", 11) && value_size && value_size < 4) {
                call->status = 0;
                for (size_t i = 0; i < value_size; i++)
                        call->status = value[i] >= '0' && value[i] <= '9' ? call->status * 10 + value[i] - '0' : 99;
        }
        if (name_size == 12 && !memcmp(name, "grpc-message", 12))
                (void)snprintf(call->text, sizeof(call->text), "%.*s", value_size < 255 ? (int)value_size : 255,
                               (const char *)value);
        return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
        struct grpc_call *call = user;

        (void)session;
        (void)stream;
        (void)code;
        call->channel.is_over = true;
        return 0;
}

static void on_over(struct channel *channel)
{
        struct grpc_call *call = (struct grpc_call *)channel;

        loop_drop(channel->loop, &channel->source);
        loop_timer_drop(channel->loop, &call->timer);
        if (call->status < 0)
                call->done(call->context, GRPC_UNAVAILABLE, "the connection ended without an answer");
        else
                call->done(call->context, call->status, call->text);
}

static void on_late(struct loop_timer *timer)
{
        struct grpc_call *call = timer->context;

        call->status = GRPC_DEADLINE_EXCEEDED;
        (void)snprintf(call->text, sizeof(call->text), "no answer within %d s", GRPC_SECONDS);
        on_over(&call->channel);
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

static int submit(struct grpc_call *call, const char *path)
{
        static const char type[] = "application/grpc";
        const nghttp2_nv headers[] = {
                GRPC_HEADER(":method", "POST"), GRPC_HEADER(":scheme", "http"),
                GRPC_HEADER(":path", path),     GRPC_HEADER(":authority", "localhost"),
                GRPC_HEADER("te", "trailers"),  GRPC_HEADER("content-type", type),
        };
        const nghttp2_data_provider provider = { .source.ptr = call, .read_callback = on_read };
        nghttp2_session *session = call->channel.session;

        if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0) != 0 ||
            nghttp2_submit_request(session, NULL, headers, ARRAY_SIZE(headers), &provider, NULL) < 0)
                return -ENOMEM;
        return 0;
}

int grpc_call_new(struct loop *loop, const char *socket, const char *path, const struct grpc_message *request,
                  void (*done)(void *context, int status, const char *text), void *context, struct grpc_call **ret,
                  struct err *err)
{
        _cleanup_(closep) int fd = connect_to(socket, err);
        struct grpc_call *call;
        nghttp2_session *session;

        if (fd < 0)
                return fd;
        call = calloc(1, sizeof(*call));
        if (!call || grpc_body_frame(request, &call->out) < 0 || session_new(call, &session) < 0) {
                if (call)
                        grpc_body_done(&call->out);
                free(call);
                return err_set(err, -ENOMEM, "calling %s", socket);
        }
        call->status = -1;
        call->done = done;
        call->context = context;
        call->channel.over = on_over;
        call->timer = (struct loop_timer){ .due = on_late, .context = call };
        if (channel_init(&call->channel, loop, fd, session, EPOLLIN | EPOLLOUT) < 0 || submit(call, path) < 0) {
                (void)TAKE_FD(fd); /* owned by the channel */
                (void)grpc_call_free(call);
                return err_set(err, -ENOMEM, "calling %s", socket);
        }
        (void)TAKE_FD(fd);
        loop_timer_set(loop, &call->timer, GRPC_SECONDS * NSEC_PER_SEC, 0);
        *ret = call;
        return 0;
}

struct grpc_call *grpc_call_free(struct grpc_call *call)
{
        if (!call)
                return NULL;
        loop_timer_drop(call->channel.loop, &call->timer);
        channel_done(&call->channel);
        grpc_body_done(&call->out);
        free(call);
        return NULL;
}
