/* SPDX-License-Identifier: Apache-2.0 */
/* A session on a socket. Nothing waits: bytes move while the socket takes and gives them. */
#include "kube/plugin/grpc_inside.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        READ_SIZE = 16 << 10,
        READS = 16, /* of one round; then other sources get their turn */
};

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t size, int flags, void *user)
{
        struct channel *channel = user;
        ssize_t n;

        (void)session;
        (void)flags;
        do
                n = send(channel->source.fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return n;
        return errno == EAGAIN ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int channel_callbacks(nghttp2_session_callbacks **ret)
{
        if (nghttp2_session_callbacks_new(ret) != 0)
                return -ENOMEM;
        nghttp2_session_callbacks_set_send_callback(*ret, on_send);
        return 0;
}

static void channel_watch(struct channel *channel, uint32_t events)
{
        if (events == channel->events)
                return;
        loop_drop(channel->loop, &channel->source);
        channel->events = events;
        if (loop_add(channel->loop, &channel->source, events) < 0)
                channel->is_over = true;
}

bool channel_pump(struct channel *channel)
{
        if (nghttp2_session_send(channel->session) != 0)
                channel->is_over = true;
        if (!nghttp2_session_want_read(channel->session) && !nghttp2_session_want_write(channel->session))
                channel->is_over = true;
        if (!channel->is_over)
                channel_watch(channel,
                              EPOLLIN | (nghttp2_session_want_write(channel->session) ? (uint32_t)EPOLLOUT : 0));
        if (!channel->is_over)
                return true;
        channel->over(channel);
        return false;
}

static void on_ready(struct loop_source *source, uint32_t events)
{
        struct channel *channel = source->context;
        uint8_t data[READ_SIZE];

        (void)events;
        for (int i = 0; i < READS && !channel->is_over; i++) {
                ssize_t n = recv(source->fd, data, sizeof(data), MSG_DONTWAIT);

                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        break;
                if (n <= 0 || nghttp2_session_mem_recv(channel->session, data, (size_t)n) != n)
                        channel->is_over = true;
        }
        (void)channel_pump(channel);
}

int channel_init(struct channel *channel, struct loop *loop, int fd, nghttp2_session *session, uint32_t events)
{
        channel->loop = loop;
        channel->source = (struct loop_source){ .fd = fd, .ready = on_ready, .context = channel };
        channel->events = events;
        channel->session = session;
        return loop_add(loop, &channel->source, events);
}

void channel_done(struct channel *channel)
{
        loop_drop(channel->loop, &channel->source);
        nghttp2_session_del(channel->session);
        (void)close(channel->source.fd);
}
